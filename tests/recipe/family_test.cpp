// Every family's knob table, rules and starting points are in order.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "machines.h"
#include "recipe/knob.h"
#include "recipe/recipe.h"

namespace warpsmith {
namespace {

using testing::machines_for;
using testing::problems_for;
using testing::random_recipe;

class EveryFamily : public ::testing::TestWithParam<const Family*> {
 protected:
  const Family& family_ = *GetParam();
};
INSTANTIATE_TEST_SUITE_P(Families, EveryFamily, ::testing::ValuesIn(families()), testing::FamilyName());

bool is_word(const std::string& text) { return !text.empty() && text.find_first_of(" \t\n=") == std::string::npos; }

bool is_line(const std::string& text) {
  return !text.empty() && text.size() <= 300 && text.find('\n') == std::string::npos;
}

TEST(Families, HaveUniqueNames) {
  std::set<std::string> names;
  for (const Family* family : families()) {
    EXPECT_TRUE(is_word(family->name));
    EXPECT_TRUE(names.insert(family->name).second) << family->name;
    EXPECT_EQ(find_family(family->name), family);
  }
  EXPECT_EQ(find_family("sm70"), nullptr);
}

TEST(Families, HopperRunsAmperesFamiliesToo) {
  const auto targets = [](Target target) {
    std::set<Target> found;
    for (const Family* family : families_for(target)) found.insert(family->target);
    return found;
  };
  EXPECT_EQ(targets(Target::cpu), std::set<Target>{Target::cpu});
  EXPECT_EQ(targets(Target::sm80), std::set<Target>{Target::sm80});
  EXPECT_EQ(targets(Target::sm90), (std::set<Target>{Target::sm80, Target::sm90}));
}

TEST_P(EveryFamily, KnobTableIsInOrder) {
  EXPECT_TRUE(is_line(family_.meaning));
  std::set<std::string> knobs, fields;
  for (const Knob& knob : family_.knobs) {
    EXPECT_TRUE(is_word(knob.name));
    EXPECT_TRUE(is_line(knob.meaning)) << knob.name;
    EXPECT_TRUE(knobs.insert(knob.name).second) << knob.name;
    EXPECT_FALSE(knob.fields.empty()) << knob.name;
    for (const KnobField& field : knob.fields) {
      EXPECT_TRUE(fields.insert(field.name).second) << field.name;
      const std::set<int> values(field.values.begin(), field.values.end());
      EXPECT_EQ(values.size(), field.values.size()) << field.name << " has a value twice";
      EXPECT_TRUE(values.count(field.default_value)) << field.name << " lacks its default";
      if (field.words.empty()) continue;
      EXPECT_EQ(field.words.size(), field.values.size()) << field.name;
      EXPECT_EQ(std::set<std::string>(field.words.begin(), field.words.end()).size(), field.words.size()) << field.name;
      for (const std::string& word : field.words) {
        EXPECT_TRUE(is_word(word)) << field.name;
        // 'x' joins the fields of one knob, so words of such fields must not hold it.
        if (knob.fields.size() > 1) {
          EXPECT_EQ(word.find('x'), std::string::npos) << field.name << ": " << word;
        }
      }
    }
  }
  EXPECT_EQ(family_.fields().size(), fields.size());
}

// A point stands for values of its knob's fields, and is told apart from them by its name.
TEST_P(EveryFamily, NamedPointsAreInOrder) {
  for (const Knob& knob : family_.knobs) {
    std::set<std::string> names;
    std::set<std::vector<int>> points;
    for (const KnobPoint& point : knob.points) {
      EXPECT_TRUE(is_word(point.name)) << knob.name;
      EXPECT_TRUE(names.insert(point.name).second) << point.name;
      EXPECT_TRUE(points.insert(point.values).second) << point.name << " is another name for the same values";
      ASSERT_EQ(point.values.size(), knob.fields.size()) << point.name;
      for (std::size_t f = 0; f < knob.fields.size(); ++f) {
        const std::vector<int>& values = knob.fields[f].values;
        EXPECT_EQ(std::count(values.begin(), values.end(), point.values[f]), 1) << point.name;
      }
      const auto by_name = parse_recipe(family_.name + " " + knob.name + "=" + point.name);
      ASSERT_TRUE(by_name.ok()) << by_name.error().message;
      EXPECT_NE(to_string(*by_name).find(knob.name + "=" + point.name), std::string::npos);
    }
  }
}

TEST_P(EveryFamily, RulesHaveUniqueNamesAndMeanings) {
  std::set<std::string> names;
  for (const Rule& rule : family_.rules) {
    EXPECT_TRUE(is_word(rule.name));
    EXPECT_TRUE(is_line(rule.meaning)) << rule.name;
    EXPECT_TRUE(names.insert(rule.name).second) << rule.name;
  }
}

TEST_P(EveryFamily, ViolationsGiveAReason) {
  std::mt19937_64 random(1);
  std::set<std::string> rules;
  for (const Rule& rule : family_.rules) rules.insert(rule.name);
  const auto problems = problems_for(family_);
  for (const Machine& machine : machines_for(family_)) {
    for (int i = 0; i < 2000; ++i) {
      const Recipe recipe = random_recipe(family_, random);
      const auto with_problem = find_violation(recipe, &problems[random() % problems.size()], machine);
      const auto alone = find_violation(recipe, nullptr, machine);
      if (alone) {
        EXPECT_TRUE(with_problem.has_value()) << to_string(recipe);
      }
      for (const auto& violation : {with_problem, alone}) {
        if (!violation) continue;
        EXPECT_TRUE(rules.count(violation->rule)) << violation->rule;
        EXPECT_TRUE(is_line(violation->reason)) << violation->rule << ": " << violation->reason;
      }
    }
  }
}

TEST_P(EveryFamily, RulesCanBeKeptAndBroken) {
  std::mt19937_64 random(2);
  const auto problems = problems_for(family_);
  const Machine machine = machines_for(family_).front();
  int legal = 0, illegal = 0;
  for (int i = 0; i < 20'000; ++i) {
    const Recipe recipe = random_recipe(family_, random);
    ++(is_legal(recipe, problems[random() % problems.size()], machine) ? legal : illegal);
  }
  EXPECT_GT(legal, 0);
  EXPECT_GT(illegal, 0);
}

TEST_P(EveryFamily, StartingPointsAreLegal) {
  for (const Machine& machine : machines_for(family_)) {
    for (const Problem& problem : problems_for(family_)) {
      const auto points = family_.starting_points(problem, machine);
      EXPECT_FALSE(points.empty()) << to_string(problem);
      std::set<std::string> texts;
      for (const Recipe& recipe : points) {
        EXPECT_EQ(&recipe.family(), &family_);
        EXPECT_TRUE(texts.insert(to_string(recipe)).second) << "given twice: " << to_string(recipe);
        const auto violation = find_violation(recipe, &problem, machine);
        EXPECT_FALSE(violation.has_value())
            << to_string(problem) << ": " << to_string(recipe) << ": " << violation->rule << ": " << violation->reason;
      }
    }
  }
}

TEST_P(EveryFamily, MachinesOfAnotherKindAreRefused) {
  const bool cpu = family_.target == Target::cpu;
  const Machine other = cpu ? testing::make_gpu("Hopper", 90, 132, 232'448) : testing::make_cpu(true, 2);
  const Problem problem{.m = 64, .n = 64, .k = 64};
  EXPECT_TRUE(find_violation(Recipe(family_), &problem, other).has_value());
}

TEST_P(EveryFamily, MarkdownNamesEveryKnobAndRule) {
  const std::string text = knob_table_markdown(family_);
  for (const Knob& knob : family_.knobs)
    EXPECT_NE(text.find(fmt::format("`{}`", knob.name)), std::string::npos) << knob.name;
  for (const Rule& rule : family_.rules)
    EXPECT_NE(text.find(fmt::format("`{}`", rule.name)), std::string::npos) << rule.name;
}

}  // namespace
}  // namespace warpsmith
