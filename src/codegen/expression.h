// The arithmetic of launch descriptors: integer expressions over a problem's sizes, parsed once and evaluated for each
// problem with every overflow caught. docs/candidates.md describes the language.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace warpsmith {

// What an expression may name.
struct ExpressionVariables {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t lda = 0, ldb = 0, ldc = 0;     // elements from row to row of the operands as stored
  std::int64_t sms = 0;                       // multiprocessors of the device
  std::int64_t a_k_major = 1, b_k_major = 0;  // 1: k is the column index of the operand as stored
};

class Expression {
 public:
  Expression() : Expression(0) {}
  explicit Expression(std::int64_t constant);

  // Error (bad_input): "column 5: ..." with what is accepted there.
  static Result<Expression> parse(std::string_view text);
  // Over other names; such an expression is evaluated with their values, in order.
  static Result<Expression> parse(std::string_view text, std::span<const std::string> names);

  // Conditions give 1 or 0. && || ?: evaluate only what decides. Error (bad_input): "column 5: ...": a value beyond 64
  // bits, a division by zero.
  Result<std::int64_t> evaluate(const ExpressionVariables& variables) const;
  // Precondition: as many values as the expression was parsed with names.
  Result<std::int64_t> evaluate(std::span<const std::int64_t> values) const;

  const std::string& text() const { return text_; }

 private:
  friend class ExpressionParser;
  enum class Operation {
    constant,
    variable,
    negate,
    invert,
    add,
    subtract,
    multiply,
    divide,
    modulo,
    less,
    less_equal,
    greater,
    greater_equal,
    equal,
    not_equal,
    both,
    either,
    choose,
    minimum,
    maximum,
    ceil_div,
    round_up
  };
  struct Node {
    Operation operation = Operation::constant;
    std::int64_t value = 0;                        // constant; variable: its number
    std::size_t column = 1;                        // of the operator or name
    std::size_t first = 0, second = 0, third = 0;  // operands, indices into nodes_
  };
  Result<std::int64_t> evaluate(std::size_t index, std::span<const std::int64_t> values) const;
  Result<std::int64_t> apply(const Node& node, std::int64_t left, std::int64_t right) const;

  std::string text_;
  std::vector<Node> nodes_;  // operands before operators; the last is the root
};

}  // namespace warpsmith
