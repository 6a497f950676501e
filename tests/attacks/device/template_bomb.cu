// Instantiates templates without end in sight: compile time and memory grow as 2 to the 40th.
using half_bits = unsigned short;

template <int depth, class... T>
struct Bomb {
  static constexpr long value = Bomb<depth - 1, T..., char>::value + Bomb<depth - 1, T..., int>::value;
};
template <class... T>
struct Bomb<0, T...> {
  static constexpr long value = sizeof...(T);
};

extern "C" __global__ void gemm(const half_bits* a, const half_bits* b, half_bits* c, int m, int n, int k) {
  c[0] = static_cast<half_bits>(Bomb<40>::value);
}
