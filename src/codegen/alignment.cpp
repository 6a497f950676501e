// What tensor maps and vector accesses of the families ask of addresses.
#include "codegen/alignment.h"

#include "recipe/sm80_plan.h"
#include "recipe/sm90_plan.h"

namespace warpsmith {

namespace {

constexpr int kTensorMapBytes = 16;

// The widest access that a matrix's rows allow: they are whole units of it and whole units of it apart.
int granule_bytes(const Problem& problem, Operand operand) {
  switch (operand) {
    case Operand::a:
      return sm80_granule(problem.a_cols() | problem.a_ld());
    case Operand::b:
      return sm80_granule(problem.b_cols() | problem.b_ld());
    case Operand::c:
      return sm80_granule(problem.n | problem.c_ld());
  }
  return kTensorMapBytes;
}

}  // namespace

int required_alignment_bytes(const Recipe& recipe, const Problem& problem, Operand operand) {
  if (&recipe.family() == &cpu_family()) return 2;  // its vectors need no alignment
  const int granule = granule_bytes(problem, operand);
  if (&recipe.family() == &sm80_family() && operand != Operand::c) {
    // Its copies are as wide as the distance of rows allows: what lies past a row's end is not read.
    return sm80_granule(operand == Operand::a ? problem.a_ld() : problem.b_ld());
  }
  if (&recipe.family() != &sm90_family() && &recipe.family() != &sm80_family()) return granule;
  if (&recipe.family() == &sm90_family() && (operand != Operand::c || recipe.get("epilogue") == kSm90Tma)) {
    return kTensorMapBytes;
  }
  return granule == 8 ? 4 : granule;  // rows of C are written by 16 bytes, by pairs or by elements
}

}  // namespace warpsmith
