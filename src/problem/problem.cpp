// Problem text forms and their parsing.
#include "problem/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <tuple>
#include <utility>
#include <vector>

#include "base/text.h"

namespace warpsmith {

namespace {

template <class Enum, std::size_t N>
Result<Enum> parse_word(std::string_view text, const std::array<std::pair<std::string_view, Enum>, N>& words,
                        std::string_view what) {
  std::string accepted;
  for (const auto& [word, value] : words) {
    if (word == text) return value;
    accepted += accepted.empty() ? "" : ", ";
    accepted += word;
  }
  return bad_input(fmt::format("unknown {} '{}'; accepted: {}", what, printable(text), accepted));
}

constexpr std::array<std::pair<std::string_view, Layout>, 4> kLayouts{
    {{"tn", Layout::tn}, {"nn", Layout::nn}, {"tt", Layout::tt}, {"nt", Layout::nt}}};
constexpr std::array<std::pair<std::string_view, ElementType>, 2> kElements{
    {{"f16", ElementType::f16}, {"bf16", ElementType::bf16}}};
constexpr std::array<std::pair<std::string_view, AccumulatorType>, 2> kAccumulators{
    {{"f32", AccumulatorType::f32}, {"f16", AccumulatorType::f16}}};

constexpr std::string_view kScaled = "scaled", kLeadingDimensions = "ld=";

template <class Enum, std::size_t N>
std::string_view word_of(Enum value, const std::array<std::pair<std::string_view, Enum>, N>& words) {
  for (const auto& [word, candidate] : words) {
    if (candidate == value) return word;
  }
  return "?";
}

std::vector<std::string_view> split_words(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> words;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t begin = text.find_first_not_of(separators, at);
    if (begin == std::string_view::npos) break;
    const std::size_t end = std::min(text.find_first_of(separators, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    at = end;
  }
  return words;
}

Result<std::int64_t> parse_dimension(std::string_view text, char name) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool number = end == text.data() + text.size() && !text.empty();
  if (!number || (error != std::errc() && error != std::errc::result_out_of_range)) {
    return bad_input(fmt::format("size {} = '{}' is not a whole number", name, printable(text)));
  }
  if (error == std::errc::result_out_of_range || value < 1 || value > kMaxDimension) {
    return bad_input(
        fmt::format("size {} = {} is out of range; accepted: 1 to {}", name, printable(text), kMaxDimension));
  }
  return value;
}

}  // namespace

std::string_view to_string(Layout layout) { return word_of(layout, kLayouts); }
std::string_view to_string(ElementType element) { return word_of(element, kElements); }
std::string_view to_string(AccumulatorType accumulator) { return word_of(accumulator, kAccumulators); }
Result<Layout> parse_layout(std::string_view text) { return parse_word(text, kLayouts, "layout"); }
Result<ElementType> parse_element(std::string_view text) { return parse_word(text, kElements, "element type"); }
Result<AccumulatorType> parse_accumulator(std::string_view text) {
  return parse_word(text, kAccumulators, "accumulator type");
}

std::string to_string(const Problem& problem) {
  std::string text = fmt::format("{}x{}x{} {} {} {}", problem.m, problem.n, problem.k, to_string(problem.layout),
                                 to_string(problem.element), to_string(problem.accumulator));
  if (problem.scaled()) text += fmt::format(" {}", kScaled);
  if (!problem.packed()) {
    text += fmt::format(" {}{},{},{}", kLeadingDimensions, problem.a_ld(), problem.b_ld(), problem.c_ld());
  }
  return text;
}

Status check_leading_dimensions(const Problem& problem) {
  const Problem& p = problem;
  for (const auto& [name, ld, cols, extent] : {std::tuple{'A', p.a_ld(), p.a_cols(), p.a_extent()},
                                               {'B', p.b_ld(), p.b_cols(), p.b_extent()},
                                               {'C', p.c_ld(), p.n, p.c_extent()}}) {
    if (ld < cols) {
      return bad_input(
          fmt::format("leading dimension {} of {} is smaller than its {} columns; accepted: {} or more, or "
                      "0 for packed rows",
                      ld, name, cols, cols));
    }
    if (ld >= kMaxElements || extent > kMaxElements) {
      return bad_input(
          fmt::format("matrix {} with a leading dimension of {} spans more than {} elements, the most "
                      "accepted",
                      name, ld, kMaxElements));
    }
  }
  return ok_status();
}

Result<Problem> with_leading_dimensions(Problem problem, std::string_view text) {
  const auto words = split_words(text, ",");
  const auto commas = std::count(text.begin(), text.end(), ',');
  std::array<std::int64_t, 3> values{};
  bool fine = words.size() == 3 && commas == 2;
  for (std::size_t i = 0; fine && i < 3; ++i) {
    const char* end = words[i].data() + words[i].size();
    const auto [at, error] = std::from_chars(words[i].data(), end, values[i]);
    fine = error == std::errc() && at == end && values[i] >= 0 && values[i] <= kMaxElements;
  }
  if (!fine) {
    return bad_input(
        fmt::format("'{}' are no leading dimensions; accepted: LDA,LDB,LDC, whole numbers of elements up "
                    "to {}, 0 for packed rows",
                    printable(text), kMaxElements));
  }
  problem.lda = values[0];
  problem.ldb = values[1];
  problem.ldc = values[2];
  const Status accepted = check_leading_dimensions(problem);
  if (!accepted) return accepted.error();
  return problem;
}

Result<Shape> parse_shape(std::string_view text) {
  // Blanks separate sizes; only a text without any is cut at the other signs, so that a stray word is named whole.
  const bool blanks = text.find_first_of(" \t") != std::string_view::npos;
  const auto words = split_words(text, blanks ? " \t" : "xX_*,");
  if (words.size() != 3) {
    return bad_input(fmt::format("'{}' is not a shape; accepted: M N K, MxNxK or M_N_K", printable(text, 60)));
  }
  std::array<std::int64_t, 3> sizes{};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto size = parse_dimension(words[i], "MNK"[i]);
    if (!size) return size.error();
    sizes[i] = *size;
  }
  const auto [m, n, k] = sizes;
  for (const auto& [rows, cols, name] : {std::tuple{m, k, 'A'}, {k, n, 'B'}, {m, n, 'C'}}) {
    if (rows * cols > kMaxElements) {
      return bad_input(fmt::format("matrix {} of {} x {} has more than {} elements, the largest accepted", name, rows,
                                   cols, kMaxElements));
    }
  }
  return Shape{m, n, k};
}

Result<Problem> parse_problem(std::string_view text) {
  auto words = split_words(text, " \t");
  const auto wrong = [&] {
    return bad_input(
        fmt::format("'{}' is not a problem; accepted: MxNxK [layout [element [accumulator]]] [scaled] "
                    "[ld=LDA,LDB,LDC]",
                    printable(text, 60)));
  };
  if (words.empty()) return wrong();
  const auto shape = parse_shape(words[0]);
  if (!shape) return shape.error();
  Problem problem{.m = shape->m, .n = shape->n, .k = shape->k};
  std::string_view leading_dimensions;
  if (words.back().starts_with(kLeadingDimensions)) {
    leading_dimensions = words.back().substr(kLeadingDimensions.size());
    words.pop_back();
    if (leading_dimensions.empty()) return wrong();
  }
  if (words.back() == kScaled) {
    problem.scaling = Scaling::alpha_beta;
    words.pop_back();
  }
  if (words.size() > 4) return wrong();
  if (words.size() > 1) {
    const auto layout = parse_layout(words[1]);
    if (!layout) return layout.error();
    problem.layout = *layout;
  }
  if (words.size() > 2) {
    const auto element = parse_element(words[2]);
    if (!element) return element.error();
    problem.element = *element;
  }
  if (words.size() > 3) {
    const auto accumulator = parse_accumulator(words[3]);
    if (!accumulator) return accumulator.error();
    problem.accumulator = *accumulator;
  }
  return leading_dimensions.empty() ? problem : with_leading_dimensions(problem, leading_dimensions);
}

}  // namespace warpsmith
