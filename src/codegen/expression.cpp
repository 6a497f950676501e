// A recursive-descent parser with C's precedences, and a checked evaluator over the tree it builds.
#include "codegen/expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <optional>
#include <utility>

#include "base/text.h"
#include "codegen/nearest.h"

namespace warpsmith {

namespace {

constexpr std::size_t kLongest = 1000;  // characters
constexpr int kDeepest = 100;           // parentheses and operators inside one another

const std::array<std::string, 9> kVariables = {"m", "n", "k", "lda", "ldb", "ldc", "sms", "a_k_major", "b_k_major"};
constexpr std::array<std::string_view, 4> kFunctions = {"min", "max", "ceil_div", "round_up"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c); }

Error at_column(std::size_t column, std::string_view what) {
  return bad_input(fmt::format("column {}: {}", column, what));
}

}  // namespace

class ExpressionParser {
 public:
  ExpressionParser(std::string_view text, std::span<const std::string> names) : text_(text), names_(names) {}

  Result<Expression> parse() && {
    if (text_.size() > kLongest) return bad_input(fmt::format("an expression has at most {} characters", kLongest));
    const Result<std::size_t> root = choice();
    if (!root) return root.error();
    skip_blanks();
    if (at_ < text_.size()) {
      return at_column(at_ + 1, fmt::format("'{}' is not expected here; accepted: an operator or the end",
                                            printable(text_.substr(at_, 1))));
    }
    Expression expression;
    expression.text_ = std::string(text_);
    expression.nodes_ = std::move(nodes_);
    return expression;
  }

 private:
  using Operation = Expression::Operation;
  using Index = Result<std::size_t>;

  // Counts how deep the parser is; the end of a scope takes it back.
  class Level {
   public:
    explicit Level(int& depth) : depth_(depth) { ++depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    ~Level() { --depth_; }

   private:
    int& depth_;
  };

  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }

  // Takes `token` when it is next. A lone '<' does not match the start of "<=".
  bool take(std::string_view token) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(token)) return false;
    if ((token == "<" || token == ">" || token == "!") && text_.substr(at_ + 1).starts_with("=")) return false;
    token_column_ = at_ + 1;
    at_ += token.size();
    return true;
  }

  std::size_t add(Operation operation, std::size_t column, std::size_t first = 0, std::size_t second = 0,
                  std::size_t third = 0, std::int64_t value = 0) {
    nodes_.push_back({operation, value, column, first, second, third});
    return nodes_.size() - 1;
  }

  // choice := binary ['?' choice ':' choice]
  Index choice() {
    const Level level(depth_);
    if (depth_ > kDeepest) return at_column(at_ + 1, "the expression is nested too deeply");
    const Index condition = binary(0);
    if (!condition || !take("?")) return condition;
    const std::size_t column = token_column_;
    const Index yes = choice();
    if (!yes) return yes;
    if (!take(":")) return at_column(at_ + 1, fmt::format("expected ':' for the '?' at column {}", column));
    const Index no = choice();
    if (!no) return no;
    return add(Operation::choose, column, *condition, *yes, *no);
  }

  struct Binary {
    std::string_view token;
    Operation operation;
    int level;  // loosest first
  };
  static constexpr std::array<Binary, 13> kBinary = {{{"||", Operation::either, 0},
                                                      {"&&", Operation::both, 1},
                                                      {"==", Operation::equal, 2},
                                                      {"!=", Operation::not_equal, 2},
                                                      {"<=", Operation::less_equal, 3},
                                                      {">=", Operation::greater_equal, 3},
                                                      {"<", Operation::less, 3},
                                                      {">", Operation::greater, 3},
                                                      {"+", Operation::add, 4},
                                                      {"-", Operation::subtract, 4},
                                                      {"*", Operation::multiply, 5},
                                                      {"/", Operation::divide, 5},
                                                      {"%", Operation::modulo, 5}}};
  static constexpr int kTightest = 5;

  // Left-associative operators of one level.
  Index binary(int level) {
    if (level > kTightest) return unary();
    Index left = binary(level + 1);
    while (left) {
      const Binary* found = nullptr;
      for (const Binary& candidate : kBinary) {
        if (candidate.level == level && found == nullptr && take(candidate.token)) found = &candidate;
      }
      if (found == nullptr) break;
      const std::size_t column = token_column_;
      const Index right = binary(level + 1);
      if (!right) return right;
      left = add(found->operation, column, *left, *right);
    }
    return left;
  }

  Index unary() {
    const Level level(depth_);
    if (depth_ > kDeepest) return at_column(at_ + 1, "the expression is nested too deeply");
    for (const auto& [token, operation] : {std::pair{"-", Operation::negate}, {"!", Operation::invert}}) {
      if (!take(token)) continue;
      const std::size_t column = token_column_;
      const Index operand = unary();
      if (!operand) return operand;
      return add(operation, column, *operand);
    }
    return primary();
  }

  Index primary() {
    skip_blanks();
    const std::size_t column = at_ + 1;
    if (at_ == text_.size()) {
      return at_column(column, "the expression ends here; expected a number, a name or '('");
    }
    if (take("(")) {
      const Index inside = choice();
      if (!inside) return inside;
      if (!take(")")) return at_column(at_ + 1, fmt::format("expected ')' for the '(' at column {}", column));
      return inside;
    }
    if (is_digit(text_[at_])) return number();
    if (is_name(text_[at_])) return name();
    return at_column(column, fmt::format("'{}' is not expected here; accepted: a number, a name or '('",
                                         printable(text_.substr(at_, 1))));
  }

  Index number() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    const std::string_view digits = text_.substr(begin, at_ - begin);
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size()) {
      return at_column(begin + 1, fmt::format("'{}' is not a whole number below 2^63", printable(digits)));
    }
    return add(Operation::constant, begin + 1, 0, 0, 0, value);
  }

  Index name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    const auto variable = std::find(names_.begin(), names_.end(), word);
    if (variable != names_.end()) {
      return add(Operation::variable, begin + 1, 0, 0, 0, std::distance(names_.begin(), variable));
    }
    const auto function = std::find(kFunctions.begin(), kFunctions.end(), word);
    if (function != kFunctions.end()) {
      return call(static_cast<std::size_t>(std::distance(kFunctions.begin(), function)), begin + 1);
    }
    std::vector<std::string_view> known(names_.begin(), names_.end());
    known.insert(known.end(), kFunctions.begin(), kFunctions.end());
    return at_column(begin + 1, unknown_name("name", word, known));
  }

  Index call(std::size_t function, std::size_t column) {
    constexpr std::array<Operation, 4> kOperations = {Operation::minimum, Operation::maximum, Operation::ceil_div,
                                                      Operation::round_up};
    const std::string shape = fmt::format("{}(x, y)", kFunctions[function]);
    if (!take("(")) return at_column(at_ + 1, fmt::format("expected '(' of {}", shape));
    const Index first = choice();
    if (!first) return first;
    if (!take(",")) return at_column(at_ + 1, fmt::format("expected ',' of {}", shape));
    const Index second = choice();
    if (!second) return second;
    if (!take(")")) return at_column(at_ + 1, fmt::format("expected ')' of {}", shape));
    return add(kOperations[function], column, *first, *second);
  }

  std::string_view text_;
  std::span<const std::string> names_;
  std::size_t at_ = 0;
  std::size_t token_column_ = 1;
  int depth_ = 0;
  std::vector<Expression::Node> nodes_;
};

Expression::Expression(std::int64_t constant) : text_(std::to_string(constant)) {
  nodes_.push_back({Operation::constant, constant, 1, 0, 0, 0});
}

Result<Expression> Expression::parse(std::string_view text) { return parse(text, kVariables); }

Result<Expression> Expression::parse(std::string_view text, std::span<const std::string> names) {
  return ExpressionParser(text, names).parse();
}

Result<std::int64_t> Expression::evaluate(const ExpressionVariables& variables) const {
  const std::array<std::int64_t, kVariables.size()> values = {variables.m,   variables.n,         variables.k,
                                                              variables.lda, variables.ldb,       variables.ldc,
                                                              variables.sms, variables.a_k_major, variables.b_k_major};
  return evaluate(values);
}

Result<std::int64_t> Expression::evaluate(std::span<const std::int64_t> values) const {
  return evaluate(nodes_.size() - 1, values);
}

Result<std::int64_t> Expression::evaluate(std::size_t index, std::span<const std::int64_t> values) const {
  const Node& node = nodes_[index];
  switch (node.operation) {
    case Operation::constant:
      return node.value;
    case Operation::variable:
      return values[static_cast<std::size_t>(node.value)];
    default:
      break;
  }
  const auto first = evaluate(node.first, values);
  if (!first) return first;
  switch (node.operation) {
    case Operation::negate:
      return apply(node, 0, *first);
    case Operation::invert:
      return std::int64_t{*first == 0};
    case Operation::choose:
      return evaluate(*first != 0 ? node.second : node.third, values);
    case Operation::both:
      if (*first == 0) return std::int64_t{0};
      break;
    case Operation::either:
      if (*first != 0) return std::int64_t{1};
      break;
    default:
      break;
  }
  const auto second = evaluate(node.second, values);
  if (!second) return second;
  return apply(node, *first, *second);
}

// `second` alone for the unary ones.
Result<std::int64_t> Expression::apply(const Node& node, std::int64_t first, std::int64_t second) const {
  std::int64_t value = 0;
  const auto checked = [&](bool overflow) -> Result<std::int64_t> {
    if (overflow) return at_column(node.column, fmt::format("the value leaves 64 bits ({} and {})", first, second));
    return value;
  };
  const bool divides = node.operation == Operation::divide || node.operation == Operation::modulo;
  if (divides && second == 0) return at_column(node.column, "division by zero");
  if (divides && second == -1) {  // the one quotient that overflows, and a remainder that hardware refuses
    if (node.operation == Operation::modulo) return std::int64_t{0};
    return checked(__builtin_sub_overflow(std::int64_t{0}, first, &value));
  }
  const bool rounds = node.operation == Operation::ceil_div || node.operation == Operation::round_up;
  if (rounds && (second <= 0 || first < 0)) {
    return at_column(node.column, fmt::format("{} and {} are not accepted; accepted: x >= 0, y > 0", first, second));
  }
  switch (node.operation) {
    case Operation::negate:
    case Operation::subtract:
      return checked(__builtin_sub_overflow(first, second, &value));
    case Operation::add:
      return checked(__builtin_add_overflow(first, second, &value));
    case Operation::multiply:
      return checked(__builtin_mul_overflow(first, second, &value));
    case Operation::divide:
      return first / second;
    case Operation::modulo:
      return first % second;
    case Operation::less:
      return std::int64_t{first < second};
    case Operation::less_equal:
      return std::int64_t{first <= second};
    case Operation::greater:
      return std::int64_t{first > second};
    case Operation::greater_equal:
      return std::int64_t{first >= second};
    case Operation::equal:
      return std::int64_t{first == second};
    case Operation::not_equal:
      return std::int64_t{first != second};
    case Operation::both:
    case Operation::either:
      return std::int64_t{second != 0};
    case Operation::minimum:
      return std::min(first, second);
    case Operation::maximum:
      return std::max(first, second);
    case Operation::ceil_div:
      return first / second + (first % second != 0 ? 1 : 0);
    case Operation::round_up:
      return checked(__builtin_mul_overflow(first / second + (first % second != 0 ? 1 : 0), second, &value));
    default:
      return failure("not an operation");
  }
}

}  // namespace warpsmith
