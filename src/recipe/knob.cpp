// The list of families and lookups in it.
#include "recipe/knob.h"

namespace warpsmith {

std::vector<const KnobField*> Family::fields() const {
  std::vector<const KnobField*> flat;
  for (const Knob& knob : knobs) {
    for (const KnobField& field : knob.fields) flat.push_back(&field);
  }
  return flat;
}

const std::vector<const Family*>& families() {
  static const std::vector<const Family*> kFamilies = {&cpu_family(), &sm90_family(), &sm80_family(), &tiny_family(),
                                                       &skinny_family()};
  return kFamilies;
}

const Family* find_family(std::string_view name) {
  for (const Family* family : families()) {
    if (family->name == name) return family;
  }
  return nullptr;
}

std::string family_names() {
  std::string names;
  for (const Family* family : families()) {
    if (!names.empty()) names += ", ";
    names += family->name;
  }
  return names;
}

std::vector<const Family*> families_for(Target target) {
  std::vector<const Family*> fitting;
  for (const Family* family : families()) {
    const bool older_cuda = target == Target::sm90 && family->target == Target::sm80;
    if (family->target == target || older_cuda) fitting.push_back(family);
  }
  return fitting;
}

}  // namespace warpsmith
