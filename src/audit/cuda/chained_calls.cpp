// Memory that the first call writes is NaN before: a value read too early shows in every sum that it enters.
#include "audit/cuda/chained_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "evaluate/gates.h"

namespace warpsmith::audit {

using cuda::check;
using cuda::Matrix;

namespace {

constexpr double kDelayUs = 3000;  // both calls are queued before the first may start
constexpr std::size_t kRounds = 4, kFewest = 2;
constexpr double kEnoughSeconds = 1;  // after a whole round, no more than this long
constexpr double kMostSeconds = 10;   // nor this long after the fewest comparisons, for kernels that take their time
constexpr int kRepeatsInDoubt = 3;
constexpr std::uint16_t kPoison = kPoisonPatterns[0];

// In f16 and in bf16: of the patterns here, only NaN exceeds both infinities.
bool is_nan(std::uint16_t word, ElementType element) {
  const unsigned infinity = element == ElementType::bf16 ? 0x7f80U : 0x7c00U;
  return (word & 0x7fffU) > infinity;
}

class ChainedCalls {
 public:
  ChainedCalls(HostSession& host, SharedOperands& operands, cudaStream_t stream, const Problem& problem,
               bool order_varies)
      : host_(host),
        operands_(operands),
        stream_(stream),
        problem_(problem),
        order_varies_(order_varies),
        hash_(sizeof(unsigned long long)) {}

  ChainReport run() {
    const auto start = std::chrono::steady_clock::now();
    const auto arrangements = all_arrangements();
    for (std::size_t i = 0; i < kRounds * arrangements.size(); ++i) {
      const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
      if (i >= arrangements.size() && passed.count() > kEnoughSeconds) break;
      if (i >= kFewest && passed.count() > kMostSeconds) break;
      const auto& [through, shift] = arrangements[i % arrangements.size()];
      if (!compare(operands_.chain(through, shift), through)) break;
    }
    return report_;
  }

 private:
  using Arrangement = std::pair<Matrix, std::int64_t>;

  // Through A and through B by turns.
  std::vector<Arrangement> all_arrangements() const {
    const auto a = operands_.chain_shifts(Matrix::a), b = operands_.chain_shifts(Matrix::b);
    std::vector<Arrangement> all;
    for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
      if (i < a.size()) all.emplace_back(Matrix::a, a[i]);
      if (i < b.size()) all.emplace_back(Matrix::b, b[i]);
    }
    return all;
  }

  struct Output {
    unsigned long long hash = 0;
    std::vector<std::uint16_t> words;
  };

  bool fail(const std::string& why) {
    report_.fault = why;
    return false;
  }

  bool answered(const Result<RunReply>& reply) {
    host_.look();
    if (!reply) return fail(reply.error().message);
    if (reply->code != 0) return fail(fmt::format("the entry returned {}", reply->code));
    return true;
  }

  unsigned long long hash_output(const SharedOperands::Chain& chain) {
    unsigned long long value = 0;
    check(cudaMemsetAsync(hash_.data(), 0, sizeof value, stream_), "cudaMemsetAsync");
    operands_.queue_output_hash(chain, hash_.as<unsigned long long>());
    check(cudaMemcpyAsync(&value, hash_.data(), sizeof value, cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync");
    check(cudaStreamSynchronize(stream_), "reading C");
    return value;
  }

  std::vector<std::uint16_t> copy_output(const SharedOperands::Chain& chain) {
    std::vector<std::uint16_t> words(static_cast<std::size_t>(problem_.m * problem_.n));
    check(cudaMemcpyAsync(words.data(), chain.second.c, words.size() * 2, cudaMemcpyDeviceToHost, stream_),
          "cudaMemcpyAsync");
    check(cudaStreamSynchronize(stream_), "reading C");
    return words;
  }

  bool run_apart(const SharedOperands::Chain& chain, Matrix through) {
    operands_.prepare_chain(chain, through, kPoison);
    return answered(host_.run("chain", 0, 1)) && answered(host_.run("chain", 1, 1));
  }

  bool run_queued(const SharedOperands::Chain& chain, Matrix through) {
    operands_.prepare_chain(chain, through, kPoison);
    return answered(host_.run_queued("chain", 2, kDelayUs));
  }

  // False: no more is to be done.
  bool compare(const SharedOperands::Chain& chain, Matrix through) {
    const Status known = host_.register_table(operands_.chain_table(chain));
    if (!known) return fail(known.error().message);
    if (!run_apart(chain, through)) return false;
    const Output apart{hash_output(chain), copy_output(chain)};
    if (!run_queued(chain, through)) return false;
    if (hash_output(chain) == apart.hash) return true;
    const std::vector<std::uint16_t> queued = copy_output(chain);
    // Who has sums in an order that varies, without saying so, is no one who does not wait.
    for (int i = 0; i < kRepeatsInDoubt && !order_varies_; ++i) {
      if (!run_apart(chain, through)) return false;
      order_varies_ = hash_output(chain) != apart.hash;
    }
    const std::int64_t bad = count_bad(apart.words, queued);
    if (bad == 0) return true;
    report_.violation = fmt::format(
        "{} of {} elements of the second of two queued calls {} where its {} holds {} elements of the first one's C: "
        "it reads them before they are written",
        bad, queued.size(),
        order_varies_ ? "come from memory that was not written yet"
                      : "differ from what they are after a synchronisation",
        through == Matrix::a ? "A" : "B", chain.shared_words);
    return false;
  }

  std::int64_t count_bad(const std::vector<std::uint16_t>& apart, const std::vector<std::uint16_t>& queued) const {
    std::int64_t bad = 0;
    for (std::size_t i = 0; i < apart.size(); ++i) {
      const bool counts = order_varies_ ? is_nan(queued[i], problem_.element) && !is_nan(apart[i], problem_.element)
                                        : queued[i] != apart[i];
      bad += counts ? 1 : 0;
    }
    return bad;
  }

  HostSession& host_;
  SharedOperands& operands_;
  cudaStream_t stream_;
  const Problem& problem_;
  bool order_varies_;
  cuda::DeviceBuffer hash_;
  ChainReport report_;
};

}  // namespace

ChainReport check_chained_calls(HostSession& host, SharedOperands& operands, cudaStream_t stream,
                                const Problem& problem, bool order_varies) {
  ChainReport report = ChainedCalls(host, operands, stream, problem, order_varies).run();
  operands.place();
  return report;
}

}  // namespace warpsmith::audit
