// Vocabulary of the embedded policy: which token stands for what. Generated from the knob tables of the families, so a
// changed table gives another vocabulary, and its version (a hash) keeps a model from being used with it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "problem/machine.h"
#include "problem/problem.h"
#include "recipe/knob.h"
#include "recipe/recipe.h"

namespace warpsmith::embedded {

// What a token means. `group` is the slot of a feature or the position of a family.
struct Token {
  enum class Kind { begin, exemplar, neighbour, analysis, answer, feature, speedup, family, field, value };
  Kind kind = Kind::begin;
  int group = 0;
  int field = 0;  // of kinds field and value
  int value = 0;  // of kinds feature, speedup and value: index of the bin or of the knob's value
};

// One fact about the problem or the machine, cut into bins.
struct FeatureSlot {
  std::string name;
  int bins = 0;
};

// Segments of a sequence: the task, each exemplar, the analysis, the answer. A token's segment is all that it is told
// of its position; the order of tokens follows from causal attention.
inline constexpr int kMostExemplars = 4;
inline constexpr int kTaskSegment = 0, kAnalysisSegment = kMostExemplars + 1, kAnswerSegment = kMostExemplars + 2;
inline constexpr int kSegments = kMostExemplars + 3;

// Speed-ups are cut into eighths of an octave from 2^-6 to 2^4.
inline constexpr int kSpeedupBins = 81;
int speedup_bin(double speedup);

class Vocabulary {
 public:
  explicit Vocabulary(std::vector<const Family*> families);
  // Of all families of this program.
  static const Vocabulary& standard();

  int size() const { return static_cast<int>(tokens_.size()); }
  const Token& token(int id) const { return tokens_[static_cast<std::size_t>(id)]; }
  std::string name(int id) const;  // "sm90.tile_m=128", "m.log2=40", "<answer>"
  // 16 hexadecimal digits over families, knobs, fields, values and features: the recipe version.
  const std::string& version() const { return version_; }

  const std::vector<const Family*>& families() const { return families_; }
  int family_index(const Family& family) const;  // -1: not one of them
  int begin() const { return 0; }
  int exemplar() const { return 1; }
  int neighbour() const { return 2; }
  int analysis() const { return 3; }
  int answer() const { return 4; }
  int speedup(int bin) const { return speedup_base_ + bin; }
  int feature(int slot, int bin) const { return feature_base_[static_cast<std::size_t>(slot)] + bin; }
  int family(int index) const { return family_base_ + index; }
  int field(int family, std::size_t field) const;
  int value(int family, std::size_t field, int choice) const;

  static const std::vector<FeatureSlot>& feature_slots();
  // The bin of every slot.
  static std::vector<int> features(const Problem& problem, const Machine& machine);

  // Family word, then one token a field.
  std::vector<int> encode(const Recipe& recipe) const;
  // The inverse. Error (bad_input): not such a sequence.
  Result<Recipe> decode(const std::vector<int>& tokens) const;
  std::size_t longest_recipe() const { return longest_recipe_; }  // tokens

 private:
  int add(Token token);

  std::vector<const Family*> families_;
  std::vector<Token> tokens_;
  std::vector<int> feature_base_;
  int speedup_base_ = 0, family_base_ = 0;
  std::vector<std::vector<int>> field_ids_, value_base_;  // by family and field
  std::vector<std::vector<const KnobField*>> fields_;
  std::size_t longest_recipe_ = 0;
  std::string version_;
};

}  // namespace warpsmith::embedded
