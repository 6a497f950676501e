// Tokens from the knob tables, and the bins of problem and machine facts.
#include "policy/embedded/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "base/hash.h"

namespace warpsmith::embedded {

namespace {

constexpr std::string_view kMarks[] = {"<begin>", "<exemplar>", "<neighbour>", "<analysis>", "<answer>"};
constexpr int kSizeBins = 81;     // quarters of an octave from 1 to 2^20
constexpr int kDivisorBins = 9;   // largest power of two that divides, up to 256
constexpr int kFillBins = 9;      // how much of its last 128 a size fills, in eighths; 0: it is full
constexpr int kTileBins = 49;     // half octaves of 128 x 128 tiles a unit, from 2^-12 to 2^12
constexpr int kMachineBins = 65;  // half octaves of machine facts; 0: unknown
constexpr int kCapabilityBins = 8;

int clamped(double value, int bins) {
  return static_cast<int>(std::clamp(std::floor(value + 0.5), 0.0, static_cast<double>(bins - 1)));
}

int size_bin(std::int64_t size) {
  return clamped(4 * std::log2(static_cast<double>(std::max<std::int64_t>(size, 1))), kSizeBins);
}

int divisor_bin(std::int64_t size) {
  return std::min(std::countr_zero(static_cast<std::uint64_t>(size)), kDivisorBins - 1);
}

int fill_bin(std::int64_t size) {
  const std::int64_t rest = size % 128;
  return static_cast<int>((rest + 15) / 16);
}

// Half octaves above `unit`; 0 for what is not known.
int machine_bin(double value, double unit) {
  if (!(value > 0)) return 0;
  return std::max(1, clamped(2 * std::log2(value / unit) + 1, kMachineBins));
}

int capability_bin(const Machine& machine) {
  if (machine.kind == "cpu") return machine.avx512 ? 2 : machine.avx2 ? 1 : 0;
  if (machine.compute_capability < 86) return 3;
  if (machine.compute_capability < 89) return 4;
  if (machine.compute_capability < 90) return 5;
  return machine.compute_capability == 90 ? 6 : 7;
}

int tile_bin(const Problem& problem, const Machine& machine) {
  const double tiles =
      std::ceil(static_cast<double>(problem.m) / 128) * std::ceil(static_cast<double>(problem.n) / 128);
  return clamped(2 * std::log2(tiles / std::max(1, machine.units)) + 24, kTileBins);
}

// What every row of every operand and result is a multiple of, in elements.
int alignment_bin(const Problem& problem) {
  return std::min({divisor_bin(problem.a_ld()), divisor_bin(problem.b_ld()), divisor_bin(problem.c_ld()), 4});
}

}  // namespace

int speedup_bin(double speedup) {
  if (!(speedup > 0)) return 0;
  return clamped(8 * (std::log2(speedup) + 6), kSpeedupBins);
}

const std::vector<FeatureSlot>& Vocabulary::feature_slots() {
  static const std::vector<FeatureSlot> kSlots = {{"m.log2", kSizeBins},
                                                  {"n.log2", kSizeBins},
                                                  {"k.log2", kSizeBins},
                                                  {"m.divisor", kDivisorBins},
                                                  {"n.divisor", kDivisorBins},
                                                  {"k.divisor", kDivisorBins},
                                                  {"m.fill", kFillBins},
                                                  {"n.fill", kFillBins},
                                                  {"tiles", kTileBins},
                                                  {"layout", 4},
                                                  {"element", 2},
                                                  {"accumulator", 2},
                                                  {"scaling", 2},
                                                  {"alignment", 5},
                                                  {"capability", kCapabilityBins},
                                                  {"units", kMachineBins},
                                                  {"smem", kMachineBins},
                                                  {"bandwidth", kMachineBins},
                                                  {"peak", kMachineBins}};
  return kSlots;
}

std::vector<int> Vocabulary::features(const Problem& problem, const Machine& machine) {
  return {size_bin(problem.m),
          size_bin(problem.n),
          size_bin(problem.k),
          divisor_bin(problem.m),
          divisor_bin(problem.n),
          divisor_bin(problem.k),
          fill_bin(problem.m),
          fill_bin(problem.n),
          tile_bin(problem, machine),
          static_cast<int>(problem.layout),
          static_cast<int>(problem.element),
          static_cast<int>(problem.accumulator),
          static_cast<int>(problem.scaling),
          alignment_bin(problem),
          capability_bin(machine),
          machine_bin(machine.units, 1),
          machine_bin(static_cast<double>(machine.smem_bytes_per_block), 1024),
          machine_bin(machine.peak_gb_per_s, 1),
          machine_bin(machine.peak_gflops, 1)};
}

int Vocabulary::add(Token token) {
  tokens_.push_back(token);
  return static_cast<int>(tokens_.size()) - 1;
}

Vocabulary::Vocabulary(std::vector<const Family*> families) : families_(std::move(families)) {
  HashInput hash;
  hash.add("tokens 1");
  for (int mark = 0; mark < static_cast<int>(std::size(kMarks)); ++mark) add({static_cast<Token::Kind>(mark), 0, 0, 0});
  for (int slot = 0; slot < static_cast<int>(feature_slots().size()); ++slot) {
    const FeatureSlot& feature = feature_slots()[static_cast<std::size_t>(slot)];
    hash.add(feature.name).add(std::to_string(feature.bins));
    feature_base_.push_back(size());
    for (int bin = 0; bin < feature.bins; ++bin) add({Token::Kind::feature, slot, 0, bin});
  }
  speedup_base_ = size();
  hash.add(std::to_string(kSpeedupBins));
  for (int bin = 0; bin < kSpeedupBins; ++bin) add({Token::Kind::speedup, 0, 0, bin});
  family_base_ = size();
  for (int index = 0; index < static_cast<int>(families_.size()); ++index) add({Token::Kind::family, index, 0, 0});
  for (int index = 0; index < static_cast<int>(families_.size()); ++index) {
    const Family& family = *families_[static_cast<std::size_t>(index)];
    hash.add(family.name);
    fields_.push_back(family.fields());
    field_ids_.emplace_back();
    value_base_.emplace_back();
    longest_recipe_ = std::max(longest_recipe_, fields_.back().size() + 1);
    for (int field = 0; field < static_cast<int>(fields_.back().size()); ++field) {
      const KnobField& knob = *fields_.back()[static_cast<std::size_t>(field)];
      hash.add(knob.name).add(std::to_string(knob.values.size()));
      field_ids_.back().push_back(add({Token::Kind::field, index, field, 0}));
      value_base_.back().push_back(size());
      for (std::size_t value = 0; value < knob.values.size(); ++value) {
        hash.add(std::to_string(knob.values[value])).add(knob.words.empty() ? "" : knob.words[value]);
        add({Token::Kind::value, index, field, static_cast<int>(value)});
      }
    }
  }
  version_ = hash.hex().substr(0, 16);
}

const Vocabulary& Vocabulary::standard() {
  static const Vocabulary kVocabulary(warpsmith::families());
  return kVocabulary;
}

int Vocabulary::family_index(const Family& family) const {
  const auto found = std::find(families_.begin(), families_.end(), &family);
  return found == families_.end() ? -1 : static_cast<int>(found - families_.begin());
}

int Vocabulary::field(int family, std::size_t field) const {
  return field_ids_[static_cast<std::size_t>(family)][field];
}

int Vocabulary::value(int family, std::size_t field, int choice) const {
  return value_base_[static_cast<std::size_t>(family)][field] + choice;
}

std::string Vocabulary::name(int id) const {
  const Token& meaning = token(id);
  const auto group = static_cast<std::size_t>(meaning.group);
  switch (meaning.kind) {
    case Token::Kind::feature:
      return fmt::format("{}={}", feature_slots()[group].name, meaning.value);
    case Token::Kind::speedup:
      return fmt::format("speedup={}", meaning.value);
    case Token::Kind::family:
      return families_[group]->name;
    case Token::Kind::field:
    case Token::Kind::value: {
      const KnobField& knob = *fields_[group][static_cast<std::size_t>(meaning.field)];
      const std::string name = families_[group]->name + "." + knob.name;
      if (meaning.kind == Token::Kind::field) return name;
      const auto at = static_cast<std::size_t>(meaning.value);
      return name + "=" + (knob.words.empty() ? std::to_string(knob.values[at]) : knob.words[at]);
    }
    default:
      return std::string(kMarks[static_cast<std::size_t>(meaning.kind)]);
  }
}

std::vector<int> Vocabulary::encode(const Recipe& recipe) const {
  const int index = family_index(recipe.family());
  std::vector<int> ids = {family(index)};
  for (std::size_t i = 0; i < recipe.size(); ++i) ids.push_back(value(index, i, recipe.choice(i)));
  return ids;
}

Result<Recipe> Vocabulary::decode(const std::vector<int>& ids) const {
  const auto known = [&](int id) { return id >= 0 && id < size(); };
  if (ids.empty() || !known(ids[0]) || token(ids[0]).kind != Token::Kind::family) {
    return bad_input("a recipe's first token must be a family");
  }
  const int index = token(ids[0]).group;
  Recipe recipe(*families_[static_cast<std::size_t>(index)]);
  if (ids.size() != recipe.size() + 1) {
    return bad_input(fmt::format("a recipe of family {} has {} tokens, not {}", recipe.family().name, recipe.size() + 1,
                                 ids.size()));
  }
  for (std::size_t i = 0; i < recipe.size(); ++i) {
    const int id = ids[i + 1];
    const bool fits = known(id) && token(id).kind == Token::Kind::value && token(id).group == index &&
                      token(id).field == static_cast<int>(i);
    if (!fits) {
      return bad_input(fmt::format("token {} of a recipe must be a value of {}", i + 1,
                                   fields_[static_cast<std::size_t>(index)][i]->name));
    }
    recipe.set_choice(i, token(id).value);
  }
  return recipe;
}

}  // namespace warpsmith::embedded
