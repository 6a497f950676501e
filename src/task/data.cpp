// Element by element; nothing here knows of devices.
#include "task/data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <thread>

#include "evaluate/judge.h"

namespace warpsmith::task {

namespace {

constexpr std::int64_t kChunk = 1 << 16;  // elements that are worth a thread
constexpr std::int64_t kTableElements = 1 << 16;
constexpr double kLargeScale = 1024;
constexpr int kWideLow = -12, kWideHigh = 6;  // exponents of wide-range values

bool is_half(TensorType type) { return type == TensorType::f16 || type == TensorType::bf16; }
ElementType element_type(TensorType type) { return type == TensorType::bf16 ? ElementType::bf16 : ElementType::f16; }

double unit(const InputSpec& spec, std::int64_t index, int draw) {
  return inputs::unit_interval(inputs::random_bits(spec, 0, index, draw));
}

double declared_value(const Input& input, const InputSpec& spec, std::int64_t index) {
  double value = 0;
  switch (input.values) {
    case Values::normal:
      value = inputs::standard_normal(spec, 0, index);
      break;
    case Values::uniform:
      value = 2 * unit(spec, index, 0) - 1;
      break;
    case Values::positive:
      value = unit(spec, index, 0);
      break;
    case Values::integers:
      break;
  }
  return input.scale * value + input.shift;
}

// About a quarter of the rows hold a NaN or an infinity; the first element of the first row is NaN, the last of the
// last one is infinite.
double special_value(const Input& input, const InputSpec& spec, std::int64_t index, const Tensor& tensor) {
  if (index == 0) return std::numeric_limits<double>::quiet_NaN();
  if (index == tensor.elements - 1) return std::numeric_limits<double>::infinity();
  const auto rare = ~0ULL / (4 * static_cast<std::uint64_t>(tensor.dims.back()));
  if (inputs::random_bits(spec, 0, index, 4) >= rare) return declared_value(input, spec, index);
  const std::uint64_t which = inputs::random_bits(spec, 0, index, 5) % 3;
  if (which == 0) return std::numeric_limits<double>::quiet_NaN();
  return which == 1 ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
}

double value_of(const Input& input, const Tensor& tensor, InputKind kind, const InputSpec& spec, std::int64_t index) {
  if (input.fixed) return declared_value(input, spec, index);
  switch (kind) {
    case InputKind::uniform:
      return 2 * unit(spec, index, 0) - 1;
    case InputKind::positive:
      return unit(spec, index, 0);
    case InputKind::wide_range: {
      const std::uint64_t bits = inputs::random_bits(spec, 0, index, 0);
      const int exponent = kWideLow + static_cast<int>((bits & 0xffff) % (kWideHigh - kWideLow + 1));
      const double magnitude = (1.0 + inputs::unit_interval(bits)) * power_of_two(exponent);
      return (bits & 0x10000) != 0 ? -magnitude : magnitude;
    }
    case InputKind::large:
      return kLargeScale * inputs::standard_normal(spec, 0, index);
    case InputKind::special:
      return special_value(input, spec, index, tensor);
    case InputKind::offset:
      return declared_value(input, spec, index) + input.offset;
    case InputKind::zero_one:
      return static_cast<double>(inputs::random_bits(spec, 0, index, 0) >> 63);
    default:
      return declared_value(input, spec, index);
  }
}

// Of a stream of random bits.
std::uint64_t bits_at(std::uint64_t key, std::int64_t at) {
  return inputs::mix(key + 0x9e3779b97f4a7c15ULL * static_cast<std::uint64_t>(at + 1));
}

// Elements of a table by 16 random bits each.
template <class Element>
void draw(const std::vector<std::byte>& table, std::uint64_t key, std::int64_t count, std::byte* data) {
  in_parallel(count, [&](std::int64_t first, std::int64_t last) {
    std::uint64_t bits = bits_at(key, first / 4) >> (16 * (first % 4));
    for (std::int64_t at = first; at < last; ++at) {
      if (at % 4 == 0) bits = bits_at(key, at / 4);
      std::memcpy(data + at * std::int64_t{sizeof(Element)}, table.data() + (bits & 0xffff) * sizeof(Element),
                  sizeof(Element));
      bits >>= 16;
    }
  });
}

std::int64_t constant(const Expression& expression, const Instance& instance) {
  return expression.evaluate(instance.values().integers).value();
}

// Which results are right for an element of float type, and how far one is off in units of what is allowed.
struct Judged {
  bool right = false;
  double ratio = 0;
};

Judged judge_half(std::uint16_t bits, const Expected& expected, bool exact, ElementType type) {
  const AcceptableRange range = acceptable_range(exact ? Criterion::exact : Criterion::bound, expected, type);
  return {range.contains(bits, type), error_ratio(bits, expected, type)};
}

Judged judge_float(float got, const Expected& expected, bool exact) {
  if (std::isnan(expected.value)) return {std::isnan(got), 0};
  const double error = exact || std::isinf(expected.value) ? 0 : expected.error;
  const auto lo = static_cast<float>(expected.value - error), hi = static_cast<float>(expected.value + error);
  const double half_ulp = std::max(std::abs(expected.value) * 0x1p-24, 0x1p-150);
  const double difference = std::abs(static_cast<double>(got) - expected.value);
  return {lo <= got && got <= hi, difference <= 1e300 ? difference / (error + half_ulp) : 0};
}

std::string place_of(const Tensor& tensor, std::int64_t index) {
  std::string text;
  for (std::size_t i = tensor.dims.size(); i-- > 0; index /= tensor.dims[i]) {
    text = fmt::format("{}{}{}", index % tensor.dims[i], text.empty() ? "" : ", ", text);
  }
  return fmt::format("{}[{}]", tensor.name, text);
}

}  // namespace

void in_parallel(std::int64_t count, const std::function<void(std::int64_t, std::int64_t)>& body) {
  const std::int64_t most = std::max(1U, std::thread::hardware_concurrency());
  const std::int64_t parts = std::clamp<std::int64_t>(count / kChunk, 1, most);
  std::vector<std::thread> threads;
  for (std::int64_t i = 1; i < parts; ++i) {
    threads.emplace_back([&body, first = count * i / parts, last = count * (i + 1) / parts] { body(first, last); });
  }
  body(0, count / parts);
  for (std::thread& thread : threads) thread.join();
}

double element_at(const std::byte* data, TensorType type, std::int64_t index) {
  if (is_half(type)) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, data + 2 * index, sizeof bits);
    return element_to_double(bits, element_type(type));
  }
  if (type == TensorType::i32) {
    std::int32_t value = 0;
    std::memcpy(&value, data + 4 * index, sizeof value);
    return value;
  }
  float value = 0;
  std::memcpy(&value, data + 4 * index, sizeof value);
  return static_cast<double>(value);
}

void store_element(std::byte* data, TensorType type, std::int64_t index, double value) {
  if (is_half(type)) {
    const std::uint16_t bits = double_to_element(value, element_type(type));
    std::memcpy(data + 2 * index, &bits, sizeof bits);
  } else if (type == TensorType::i32) {
    const auto whole = static_cast<std::int32_t>(value);
    std::memcpy(data + 4 * index, &whole, sizeof whole);
  } else {
    const auto real = static_cast<float>(value);
    std::memcpy(data + 4 * index, &real, sizeof real);
  }
}

std::vector<std::vector<std::byte>> make_inputs(const Instance& instance, InputKind kind, std::uint64_t seed) {
  const Task& task = *instance.task;
  std::vector<std::vector<std::byte>> result;
  for (std::size_t i = 0; i < task.inputs.size(); ++i) {
    const Input& input = task.inputs[i];
    const Tensor& tensor = instance.tensors[i];
    InputSpec spec;
    spec.kind = input.fixed ? InputKind::normal : kind;
    spec.seed = inputs::mix(seed + i + 1);
    std::vector<std::byte> data(static_cast<std::size_t>(tensor.bytes));
    const bool whole = input.values == Values::integers;
    const std::int64_t low = whole ? constant(input.low, instance) : 0;
    const std::uint64_t range = whole ? static_cast<std::uint64_t>(constant(input.high, instance) - low) : 1;
    in_parallel(tensor.elements, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t at = first; at < last; ++at) {
        const double value =
            whole ? static_cast<double>(low + static_cast<std::int64_t>(inputs::random_bits(spec, 0, at, 0) % range))
                  : value_of(input, tensor, kind, spec, at);
        store_element(data.data(), tensor.type, at, value);
      }
    });
    result.push_back(std::move(data));
  }
  return result;
}

TimedInputs::TimedInputs(const Instance& instance, std::uint64_t seed) : instance_(instance) {
  const Task& task = *instance.task;
  for (std::size_t i = 0; i < task.inputs.size(); ++i) {
    std::vector<std::byte>& table = tables_.emplace_back();
    if (task.inputs[i].values == Values::integers) continue;
    const Tensor& tensor = instance.tensors[i];
    InputSpec spec;
    spec.seed = inputs::mix(seed + i + 1);
    table.resize(static_cast<std::size_t>(kTableElements * size_of(tensor.type)));
    for (std::int64_t at = 0; at < kTableElements; ++at) {
      store_element(table.data(), tensor.type, at, declared_value(task.inputs[i], spec, at));
    }
  }
}

std::vector<std::vector<std::byte>> TimedInputs::make(std::uint64_t seed) const {
  const Task& task = *instance_.task;
  std::vector<std::vector<std::byte>> result;
  for (std::size_t i = 0; i < task.inputs.size(); ++i) {
    const Tensor& tensor = instance_.tensors[i];
    const std::uint64_t key = inputs::mix(seed + i + 1);
    std::vector<std::byte> data(static_cast<std::size_t>(tensor.bytes));
    if (task.inputs[i].values == Values::integers) {
      const std::int64_t low = constant(task.inputs[i].low, instance_);
      const auto range = static_cast<std::uint64_t>(constant(task.inputs[i].high, instance_) - low);
      in_parallel(tensor.elements, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t at = first; at < last; ++at) {
          const auto value = static_cast<std::int32_t>(low + static_cast<std::int64_t>(bits_at(key, at) % range));
          std::memcpy(data.data() + 4 * at, &value, sizeof value);
        }
      });
    } else if (size_of(tensor.type) == 2) {
      draw<std::uint16_t>(tables_[i], key, tensor.elements, data.data());
    } else {
      draw<std::uint32_t>(tables_[i], key, tensor.elements, data.data());
    }
    result.push_back(std::move(data));
  }
  return result;
}

std::vector<double> widen(const Tensor& tensor, const std::byte* data) {
  std::vector<double> values(static_cast<std::size_t>(tensor.elements));
  in_parallel(tensor.elements, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) values[static_cast<std::size_t>(i)] = element_at(data, tensor.type, i);
  });
  return values;
}

CheckReport judge_output(const Tensor& tensor, const Tolerance& tolerance, const std::byte* data,
                         const std::vector<double>& expected, const std::vector<double>& magnitudes) {
  const auto wanted = [&](std::int64_t index) {
    const auto at = static_cast<std::size_t>(index);
    const double scale = magnitudes.empty() ? 1.0 : magnitudes[at];
    const double error =
        tolerance.exact ? 0.0 : tolerance.absolute * scale + tolerance.relative * std::abs(expected[at]);
    // An error that is no number allows nothing.
    return Expected{expected[at], error >= 0 && error <= 1e300 ? error : 0.0, false};
  };
  const auto judge = [&](std::int64_t index) -> Judged {
    const Expected right = wanted(index);
    if (tensor.type == TensorType::i32) return {element_at(data, tensor.type, index) == right.value, 0};
    if (tensor.type == TensorType::f32) {
      return judge_float(static_cast<float>(element_at(data, tensor.type, index)), right, tolerance.exact);
    }
    std::uint16_t bits = 0;
    std::memcpy(&bits, data + 2 * index, sizeof bits);
    return judge_half(bits, right, tolerance.exact, element_type(tensor.type));
  };
  CheckReport report{true, {}, 0, 0};
  std::int64_t first_bad = tensor.elements;
  std::mutex mutex;
  in_parallel(tensor.elements, [&](std::int64_t first, std::int64_t last) {
    std::int64_t bad = 0, first_here = tensor.elements;
    double worst = 0;
    for (std::int64_t i = first; i < last; ++i) {
      const Judged seen = judge(i);
      worst = std::max(worst, seen.ratio);
      if (seen.right) continue;
      if (bad++ == 0) first_here = i;
    }
    const std::lock_guard lock(mutex);
    report.bad += bad;
    report.worst_error = std::max(report.worst_error, worst);
    first_bad = std::min(first_bad, first_here);
  });
  if (report.bad == 0) return report;
  report.passed = false;
  const Expected right = wanted(first_bad);
  report.detail =
      fmt::format("{} of {} elements of {} are wrong; the first, {}, is {:g}, expected {:g}{}", report.bad,
                  tensor.elements, tensor.name, place_of(tensor, first_bad), element_at(data, tensor.type, first_bad),
                  right.value, tolerance.exact ? " exactly" : fmt::format(" within {:g}, rounded", right.error));
  return report;
}

}  // namespace warpsmith::task
