// Shared command-line pieces.
#include "cli.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdio>

#include "base/text.h"

namespace warpsmith::cli {

namespace {

std::atomic<bool> interrupt_flag{false};

void on_signal(int) {
  if (interrupt_flag.exchange(true)) _exit(kExitInterrupted);
}

}  // namespace

int report(const Error& error) {
  fmt::print(stderr, "warpsmith: {}\n", error.message);
  switch (error.kind) {
    case ErrorKind::bad_input:
      return kExitBadInput;
    case ErrorKind::environment:
      return kExitEnvironment;
    case ErrorKind::failed:
      return kExitFailed;
  }
  return kExitFailed;
}

const std::atomic<bool>& interrupted() { return interrupt_flag; }

void install_interrupt_handler() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);  // a reader of our output that goes away shows as a write error,
  std::signal(SIGXFSZ, SIG_IGN);  // and so does a limit on file sizes
}

Result<double> parse_duration(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  double scale = 0;
  for (const auto& [name, seconds] :
       {std::pair<std::string_view, double>{"", 1}, {"s", 1}, {"ms", 1e-3}, {"m", 60}, {"min", 60}, {"h", 3600}}) {
    if (unit == name) scale = seconds;
  }
  const double seconds = value * scale;
  if (error != std::errc() || !(seconds > 0) || seconds > 1e7) {
    return bad_input(fmt::format("'{}' is not a duration; accepted: a positive number with s, ms, m or h, such as 60s",
                                 printable(text)));
  }
  return seconds;
}

void ProblemOptions::add_to(CLI::App& command) {
  command.add_option("shape", shape_words, "Sizes: M N K, or MxNxK")->type_name("M N K");
  command.add_option("--mnk", mnk, "Sizes as M_N_K")->type_name("M_N_K");
  command
      .add_option("--layout", layout,
                  "Operand layout of row-major A[m,k] and C: nn (B stored k x n), tn (B stored n x k), both (each in "
                  "turn); nt and tt store A as k x m")
      ->capture_default_str();
  command.add_option("--type", element, "Element type: f16 or bf16")->capture_default_str();
  command.add_option("--acc", accumulator, "Accumulator type: f32, or f16 (f16 elements, CUDA)")->capture_default_str();
  command.add_flag("--scaled", scaled, "Compute C = alpha A B + beta C, with alpha and beta given at run time");
  command.add_option("--ld", leading_dimensions, "Elements from row to row of A, B, C as stored; 0: packed")
      ->type_name("LDA,LDB,LDC");
}

Result<std::vector<Problem>> ProblemOptions::problems() const {
  std::string text = mnk;
  for (const std::string& word : shape_words) text += (text.empty() ? "" : " ") + word;
  if (text.empty()) return bad_input("no shape given; accepted: M N K, MxNxK or --mnk M_N_K");
  const auto shape = parse_shape(text);
  if (!shape) return shape.error();
  return problems_of({*shape});
}

Result<std::vector<Problem>> ProblemOptions::problems_of(const std::vector<Shape>& shapes) const {
  std::vector<Layout> layouts;
  if (layout == "both") {
    layouts = {Layout::nn, Layout::tn};
  } else {
    const auto parsed = parse_layout(layout);
    if (!parsed) return bad_input(parsed.error().message + ", both");
    layouts = {*parsed};
  }
  const auto element_type = parse_element(element);
  if (!element_type) return element_type.error();
  const auto accumulator_type = parse_accumulator(accumulator);
  if (!accumulator_type) return accumulator_type.error();
  if (*accumulator_type == AccumulatorType::f16 && *element_type != ElementType::f16) {
    return bad_input("bf16 elements are accumulated in f32; accepted for --acc f16: --type f16");
  }
  std::vector<Problem> list;
  for (const Shape& shape : shapes) {
    for (const Layout each : layouts) {
      Problem problem{shape.m, shape.n, shape.k, each, *element_type, *accumulator_type};
      if (scaled) problem.scaling = Scaling::alpha_beta;
      if (!leading_dimensions.empty()) {
        const auto padded = with_leading_dimensions(problem, leading_dimensions);
        if (!padded) return padded.error();
        problem = *padded;
      }
      list.push_back(problem);
    }
  }
  return list;
}

void DeviceOptions::add_to(CLI::App& command) {
  command
      .add_option("--target", target,
                  "What to build for: auto (a CUDA GPU, else this CPU), cpu, sm90, sm80, replay:FILE")
      ->capture_default_str();
  command.add_option("--threads", threads, "CPU target: threads a kernel may use, a number or 'all'")
      ->capture_default_str();
  command.add_option("--device", device, "CUDA target: device number")->capture_default_str();
}

}  // namespace warpsmith::cli
