// Candidates by the name under which the archive knows them: a recipe's text form, or "free HASH" of device source and
// launch descriptor that no recipe describes.
#pragma once

#include <string>
#include <string_view>

#include "archive/archive.h"
#include "base/result.h"
#include "codegen/generate.h"

namespace warpsmith {

bool is_free_form_name(std::string_view name);

// Made for the problem of the scope on its machine. `archive` may be null: then only recipes are known. Error:
// bad_input for a name that stands for nothing legal there; environment of the archive.
Result<Candidate> named_candidate(const std::string& name, const Archive::Scope& scope, Archive* archive);

// For people: the recipe's short form, or the first digits of the hash.
std::string short_name(const std::string& name);

}  // namespace warpsmith
