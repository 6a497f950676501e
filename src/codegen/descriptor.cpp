// Reading descriptors. The first thing that is wrong is reported; reading goes on with defaults behind it.
#include "codegen/descriptor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "codegen/nearest.h"

namespace warpsmith {

namespace {

using nlohmann::json;

constexpr int kFormatVersion = 1;
constexpr std::size_t kMaxTunables = 16, kMaxTunableValues = 64;

bool is_identifier(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !text.empty() && text.size() <= 200 && letter(text.front()) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

bool is_macro(std::string_view text) {
  return is_identifier(text) && text.front() >= 'A' && text.front() <= 'Z' && !text.starts_with("WARPSMITH_") &&
         std::none_of(text.begin(), text.end(), [](char c) { return c >= 'a' && c <= 'z'; });
}

// A name in the descriptor's own directory: what is compiled may be quoted in a log, so no other file may be named.
bool is_file_name(std::string_view text) {
  return !text.empty() && text.size() <= 200 && text.front() != '.' &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
                  c == '.' || c == '+';
         });
}

// "sm_90a", "sm_80"
bool is_arch(std::string_view text) {
  if (!text.starts_with("sm_")) return false;
  text.remove_prefix(3);
  if (text.ends_with('a') || text.ends_with('f')) text.remove_suffix(1);
  return text.size() >= 2 && text.size() <= 3 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// A value of the document with its JSON pointer; `value` is null where it is absent.
struct Place {
  const json* value = nullptr;
  std::string pointer;
  explicit operator bool() const { return value != nullptr; }
};

bool has_argument(const FreeForm& form, KernelArgument::Kind kind) {
  return std::any_of(form.kernels.begin(), form.kernels.end(), [kind](const KernelForm& kernel) {
    return std::any_of(kernel.arguments.begin(), kernel.arguments.end(),
                       [kind](const ArgumentForm& argument) { return argument.kind == kind; });
  });
}

class DescriptorReader {
 public:
  // names: of a task; null: a matrix product's.
  explicit DescriptorReader(const DescriptorNames* names) : names_(names) {
    if (names != nullptr) variables_ = names->variables;
  }

  const std::optional<std::string>& complaint() const { return complaint_; }

  FreeForm read(const json& document, const std::string& source_name) {
    const Place root{&document, ""};
    static const std::vector<std::string_view> kFields = {"warpsmith_candidate",
                                                          "name",
                                                          "source",
                                                          "layouts",
                                                          "elements",
                                                          "accumulators",
                                                          "leading_dimensions",
                                                          "requires",
                                                          "arch",
                                                          "defines",
                                                          "kernels",
                                                          "workspace_bytes",
                                                          "zero_workspace",
                                                          "order_nondeterministic",
                                                          "about"};
    static const std::vector<std::string_view> kTaskFields = {"warpsmith_candidate",
                                                              "name",
                                                              "source",
                                                              "requires",
                                                              "arch",
                                                              "defines",
                                                              "tune",
                                                              "entry",
                                                              "kernels",
                                                              "workspace_bytes",
                                                              "zero_workspace",
                                                              "order_nondeterministic",
                                                              "about"};
    if (!object(root, names_ == nullptr ? kFields : kTaskFields)) return {};
    version(member(root, "warpsmith_candidate"));
    FreeForm form;
    if (names_ != nullptr) read_tunables(member(root, "tune"), form);
    form.name = string(member(root, "name"), "");
    form.source_name = source_name;
    if (const Place source = member(root, "source")) {
      form.source_name = string(source, "");
      demand(is_file_name(form.source_name), source, "not a file name in the descriptor's own directory");
    }
    read_scope(root, form);
    form.workspace_bytes = expression(member(root, "workspace_bytes"), 0);
    form.zero_workspace = boolean(member(root, "zero_workspace"));
    if (const Place reason = member(root, "order_nondeterministic")) {
      form.order_nondeterministic = string(reason, "");
      demand(!form.order_nondeterministic->empty(), reason, "expected the reason as text");
    }
    if (names_ != nullptr && form.source_name.ends_with(".cpp")) {
      form.language = Language::cpp;
      form.entry = string(member(root, "entry"), "");
      demand(is_identifier(form.entry), member(root, "entry"), "expected the name of an extern \"C\" function");
      demand(!member(root, "kernels"), member(root, "kernels"), "a C++ source has no kernels to launch, but an entry");
    } else {
      demand(!member(root, "entry"), member(root, "entry"), "of C++ sources (.cpp) alone; kernels have entries each");
      read_kernels(root, form);
    }
    require_both_factors(form);
    return form;
  }

 private:
  // --- the first complaint is kept ---
  void complain(const std::string& pointer, std::string_view what) {
    if (complaint_) return;
    complaint_ = pointer.empty() ? std::string(what) : fmt::format("{}: {}", pointer, what);
  }
  bool demand(bool fine, const Place& place, std::string_view what) {
    if (!fine) complain(place.pointer, what);
    return fine;
  }

  // --- values ---
  static Place member(const Place& object, const std::string& name) {
    const auto found = object.value->find(name);
    return {found == object.value->end() ? nullptr : &*found, fmt::format("{}/{}", object.pointer, name)};
  }
  static Place element(const Place& array, std::size_t index) {
    return {&(*array.value)[index], fmt::format("{}/{}", array.pointer, index)};
  }

  bool object(const Place& place, const std::vector<std::string_view>& fields) {
    if (!demand(place && place.value->is_object(), place, "expected an object")) return false;
    for (const auto& [name, value] : place.value->items()) {
      if (std::find(fields.begin(), fields.end(), name) != fields.end()) continue;
      complain(place.pointer, unknown_name("field", name, fields));
      return false;
    }
    return true;
  }

  bool array(const Place& place, std::size_t least, std::size_t most) {
    if (!demand(place && place.value->is_array(), place, "expected a list")) return false;
    const std::size_t size = place.value->size();
    return demand(size >= least && size <= most, place,
                  fmt::format("expected {} to {} entries, not {}", least, most, size));
  }

  std::string string(const Place& place, std::string fallback) {
    if (!place) return fallback;
    if (!demand(place.value->is_string(), place, "expected text")) return fallback;
    return place.value->get<std::string>();
  }

  bool boolean(const Place& place) {
    return place && demand(place.value->is_boolean(), place, "expected true or false") && place.value->get<bool>();
  }

  Expression expression(const Place& place, std::int64_t fallback) {
    if (!place) return Expression(fallback);
    const json& value = *place.value;
    const bool fits = value.is_number_integer() &&
                      (!value.is_number_unsigned() ||
                       value.get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<std::int64_t>::max()});
    if (fits) return Expression(value.get<std::int64_t>());
    if (!demand(value.is_string(), place, "expected a whole number or an expression as text")) return {};
    auto parsed = names_ == nullptr ? Expression::parse(value.get<std::string>())
                                    : Expression::parse(value.get<std::string>(), variables_);
    if (parsed) return std::move(*parsed);
    complain(place.pointer,
             fmt::format("{} in '{}'", parsed.error().message, printable(value.get<std::string>(), 120)));
    return {};
  }

  Operand operand(const Place& place) {
    const std::string text = string(place, "");
    demand(text == "a" || text == "b" || text == "c", place, "expected \"a\", \"b\" or \"c\"");
    return text == "b" ? Operand::b : text == "c" ? Operand::c : Operand::a;
  }

  // --- sections ---
  void version(const Place& place) {
    if (!place) {
      complain("", fmt::format("not a candidate's descriptor: \"warpsmith_candidate\": {} is missing", kFormatVersion));
      return;
    }
    demand(place.value->is_number_integer() && *place.value == kFormatVersion, place,
           fmt::format("unknown version; accepted: {}", kFormatVersion));
  }

  template <class T>
  std::vector<T> words(const Place& place, Result<T> (*parse)(std::string_view), std::vector<T> fallback) {
    if (!place || !array(place, 1, 4)) return fallback;
    std::vector<T> values;
    for (std::size_t i = 0; i < place.value->size(); ++i) {
      const Place entry = element(place, i);
      const Result<T> value = parse(string(entry, ""));
      if (value) {
        values.push_back(*value);
      } else {
        complain(entry.pointer, value.error().message);
      }
    }
    return values;
  }

  // Which problems, and what the source is compiled with.
  void read_scope(const Place& root, FreeForm& form) {
    form.layouts =
        words<Layout>(member(root, "layouts"), parse_layout, {Layout::nn, Layout::tn, Layout::nt, Layout::tt});
    form.elements = words<ElementType>(member(root, "elements"), parse_element, {ElementType::f16});
    form.accumulators = words<AccumulatorType>(member(root, "accumulators"), parse_accumulator, {AccumulatorType::f32});
    form.leading_dimensions = boolean(member(root, "leading_dimensions"));
    if (const Place conditions = member(root, "requires"); conditions && array(conditions, 0, 32)) {
      for (std::size_t i = 0; i < conditions.value->size(); ++i) {
        form.required.push_back(expression(element(conditions, i), 1));
      }
    }
    if (const Place arch = member(root, "arch")) {
      form.arch = string(arch, "");
      demand(is_arch(form.arch), arch, "not an architecture; accepted: sm_90a, sm_80 and the like");
    }
    const Place defines = member(root, "defines");
    if (!defines || !demand(defines.value->is_object(), defines, "expected an object")) return;
    demand(defines.value->size() <= 64, defines, "at most 64 macros are accepted");
    for (const auto& [name, value] : defines.value->items()) {
      const Place entry{&value, fmt::format("{}/{}", defines.pointer, printable(name))};
      demand(is_macro(name), entry, "not a macro's name; accepted: capitals, digits and '_', not WARPSMITH_...");
      form.defines.emplace_back(name, expression(entry, 0));
    }
  }

  void read_kernels(const Place& root, FreeForm& form) {
    const Place kernels = member(root, "kernels");
    if (!kernels) return complain("", "\"kernels\" is missing: a list of the kernels to launch");
    if (!array(kernels, 1, kMaxKernels)) return;
    for (std::size_t i = 0; i < kernels.value->size(); ++i) form.kernels.push_back(kernel(element(kernels, i)));
  }

  // A candidate that ignores one of the two computes something else.
  void require_both_factors(const FreeForm& form) {
    const bool alpha = has_argument(form, KernelArgument::Kind::alpha);
    const bool beta = has_argument(form, KernelArgument::Kind::beta);
    if (alpha != beta) {
      complain("/kernels", fmt::format("{} is an argument, but not {}; accepted: both or neither",
                                       alpha ? "alpha" : "beta", alpha ? "beta" : "alpha"));
    }
  }

  void read_tunables(const Place& place, FreeForm& form) {
    if (!place || !demand(place.value->is_object(), place, "expected an object")) return;
    demand(place.value->size() <= kMaxTunables, place, fmt::format("at most {} macros are accepted", kMaxTunables));
    for (const auto& [name, values] : place.value->items()) {
      const Place entry{&values, fmt::format("{}/{}", place.pointer, printable(name))};
      demand(is_macro(name), entry, "not a macro's name; accepted: capitals, digits and '_', not WARPSMITH_...");
      if (!array(entry, 1, kMaxTunableValues)) continue;
      Tunable tunable{name, {}};
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (!demand(values[i].is_number_integer(), element(entry, i), "expected a whole number")) continue;
        tunable.values.push_back(values[i].get<std::int64_t>());
      }
      if (tunable.values.empty()) continue;
      variables_.push_back(name);
      form.tune.push_back(std::move(tunable));
    }
  }

  // The number of a name of the task's.
  std::optional<std::size_t> named(const Place& place, const std::vector<std::string>& known, std::string_view what) {
    const std::string text = string(place, "");
    const auto found = std::find(known.begin(), known.end(), text);
    if (found != known.end()) return static_cast<std::size_t>(found - known.begin());
    complain(place.pointer, unknown_name(what, text, {known.begin(), known.end()}));
    return std::nullopt;
  }

  std::array<Expression, 3> dimensions(const Place& place) {
    std::array<Expression, 3> result{Expression(1), Expression(1), Expression(1)};
    if (!place || !array(place, 1, 3)) return result;
    for (std::size_t i = 0; i < place.value->size(); ++i) result[i] = expression(element(place, i), 1);
    return result;
  }

  KernelForm kernel(const Place& place) {
    KernelForm form;
    form.place = place.pointer;
    static const std::vector<std::string_view> kFields = {
        "entry", "grid", "block", "cluster", "dynamic_smem_bytes", "programmatic_dependent_launch", "arguments"};
    if (!object(place, kFields)) return form;
    const Place entry = member(place, "entry");
    form.entry = string(entry, "");
    demand(is_identifier(form.entry), entry, "expected the name of an extern \"C\" __global__ function");
    for (const char* needed : {"grid", "block"}) {
      const Place sizes = member(place, needed);
      demand(static_cast<bool>(sizes), sizes, "missing: a list of 1 to 3 sizes");
    }
    form.grid = dimensions(member(place, "grid"));
    form.block = dimensions(member(place, "block"));
    form.cluster = dimensions(member(place, "cluster"));
    form.dynamic_smem_bytes = expression(member(place, "dynamic_smem_bytes"), 0);
    form.programmatic_dependent_launch = boolean(member(place, "programmatic_dependent_launch"));
    const Place arguments = member(place, "arguments");
    if (!array(arguments, 1, kMaxKernelArguments)) return form;
    for (std::size_t i = 0; i < arguments.value->size(); ++i) {
      form.arguments.push_back(argument(element(arguments, i)));
    }
    return form;
  }

  ArgumentForm argument(const Place& place) {
    ArgumentForm form;
    form.place = place.pointer;
    static const std::vector<std::string_view> kKinds = {"pointer", "workspace", "int32",     "float32",
                                                         "alpha",   "beta",      "tensor_map"};
    static const std::vector<std::string_view> kTaskKinds = {"pointer", "workspace", "int32", "float32"};
    const auto& kinds = names_ == nullptr ? kKinds : kTaskKinds;
    if (!object(place, kinds)) return form;
    if (!demand(place.value->size() == 1, place, fmt::format("expected one of {}", fmt::join(kinds, ", "))))
      return form;
    if (const Place pointer = member(place, "pointer")) {
      if (names_ != nullptr) {
        form.named = named(pointer, names_->pointers, "tensor");
      } else {
        form.operand = operand(pointer);
      }
    } else if (const Place workspace = member(place, "workspace")) {
      form.kind = KernelArgument::Kind::workspace;
      form.value = expression(workspace, 0);
    } else if (const Place integer = member(place, "int32")) {
      form.kind = KernelArgument::Kind::int32;
      form.value = expression(integer, 0);
    } else if (const Place number = member(place, "float32")) {
      form.kind = KernelArgument::Kind::float32;
      if (names_ != nullptr && number.value->is_string()) {
        form.named = named(number, names_->numbers, "constant");
        return form;
      }
      if (demand(number.value->is_number(), number, "expected a number")) form.real = number.value->get<float>();
      demand(std::isfinite(form.real), number, "the number does not fit 32 bits");
    } else if (const Place alpha = member(place, "alpha")) {
      form.kind = KernelArgument::Kind::alpha;
      demand(*alpha.value == true, alpha, "expected true");
    } else if (const Place beta = member(place, "beta")) {
      form.kind = KernelArgument::Kind::beta;
      demand(*beta.value == true, beta, "expected true");
    } else {
      form.kind = KernelArgument::Kind::tensor_map;
      form.map = tensor_map(member(place, "tensor_map"));
      form.operand = form.map.operand;
    }
    return form;
  }

  std::array<Expression, 2> pair(const Place& place) {
    std::array<Expression, 2> result;
    if (!array(place, 2, 2)) return result;
    for (std::size_t i = 0; i < 2; ++i) result[i] = expression(element(place, i), 1);
    return result;
  }

  TensorMapForm tensor_map(const Place& place) {
    TensorMapForm form;
    static const std::vector<std::string_view> kFields = {"operand", "box",           "dims",
                                                          "ld",      "swizzle_bytes", "l2_promotion_bytes"};
    if (!object(place, kFields)) return form;
    form.operand = operand(member(place, "operand"));
    form.box = pair(member(place, "box"));
    if (const Place dims = member(place, "dims")) form.dims = pair(dims);
    if (const Place ld = member(place, "ld")) form.ld = expression(ld, 0);
    form.swizzle_bytes = expression(member(place, "swizzle_bytes"), 128);
    form.l2_promotion_bytes = expression(member(place, "l2_promotion_bytes"), 256);
    return form;
  }

  const DescriptorNames* names_;
  std::vector<std::string> variables_;  // of a task's expressions: its own and the macros that are tuned
  std::optional<std::string> complaint_;
};

// The document; a name given twice in one object is an error, where the parser would take the last.
Result<json> parse_document(std::string_view text) {
  std::vector<std::set<std::string>> names;
  std::string twice;
  const json::parser_callback_t watch = [&](int, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start) names.emplace_back();
    if (event == json::parse_event_t::object_end) names.pop_back();
    if (event == json::parse_event_t::key && !names.back().insert(value.get<std::string>()).second && twice.empty()) {
      twice = value.get<std::string>();
    }
    return true;
  };
  try {
    json document = json::parse(text, watch);
    if (!twice.empty()) return bad_input(fmt::format("the field '{}' is given twice", printable(twice)));
    return document;
  } catch (const json::exception& error) {
    return bad_input(fmt::format("not JSON: {}", printable(error.what(), 200)));
  }
}

Result<std::string> read_limited(const std::filesystem::path& path, std::size_t most) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return bad_input(fmt::format("{}: no such file", path.string()));
  }
  const auto size = std::filesystem::file_size(path, error);
  if (!error && size > most) {
    return bad_input(fmt::format("{}: {} bytes; at most {} are accepted", path.string(), size, most));
  }
  return read_file(path);
}

// `source_name`: of the source that was named beside it; empty: what the descriptor says, else its stem with .cu.
Result<FreeForm> read_form(std::string_view json_text, const std::filesystem::path& descriptor,
                           const DescriptorNames* names, const std::string& source_name) {
  const auto complain = [&](const std::string& what) {
    return bad_input(fmt::format("{}: {}", descriptor.string(), what));
  };
  const Result<json> document = parse_document(json_text);
  if (!document) return complain(document.error().message);
  DescriptorReader reader(names);
  FreeForm form = reader.read(*document, source_name);
  if (reader.complaint()) return complain(*reader.complaint());
  form.descriptor = descriptor;
  form.descriptor_hash = sha256_hex(json_text);
  if (form.name.empty()) form.name = descriptor.stem().string();
  if (form.source_name.empty()) form.source_name = descriptor.stem().string() + ".cu";
  return form;
}

}  // namespace

bool FreeForm::takes_scaling() const { return has_argument(*this, KernelArgument::Kind::alpha); }

namespace {

Result<FreeForm> parse_form(std::string_view json_text, std::string source, const std::filesystem::path& descriptor,
                            const DescriptorNames* names) {
  Result<FreeForm> form = read_form(json_text, descriptor, names, {});
  if (!form) return form;
  if (source.size() > kMaxSourceBytes) {
    return bad_input(
        fmt::format("{}: {} bytes; at most {} are accepted", form->source_name, source.size(), kMaxSourceBytes));
  }
  form->source = std::move(source);
  return form;
}

Result<FreeForm> load_form(const std::filesystem::path& path, const DescriptorNames* names) {
  const bool cpp = names != nullptr && path.extension() == ".cpp";
  if (path.extension() != ".cu" && path.extension() != ".json" && !cpp) {
    return bad_input(fmt::format("{}: a candidate is named by its .cu{} or its .json file", path.string(),
                                 names == nullptr ? "" : ", its .cpp"));
  }
  std::filesystem::path descriptor = path;
  descriptor.replace_extension(".json");
  const bool source_named = path.extension() != ".json";
  std::error_code error;
  if (source_named && std::filesystem::exists(path, error) && !std::filesystem::exists(descriptor, error)) {
    return bad_input(fmt::format("{}: its launch descriptor {} is missing", path.string(), descriptor.string()));
  }
  const auto text = read_limited(descriptor, kMaxDescriptorBytes);
  if (!text) return text.error();
  Result<FreeForm> form = read_form(*text, descriptor, names, cpp ? path.filename().string() : std::string());
  if (!form) return form;
  if (source_named && form->source_name != path.filename()) {
    return bad_input(
        fmt::format("{}: /source: names {}, not {}", descriptor.string(), form->source_name, path.filename().string()));
  }
  auto source = read_limited(descriptor.parent_path() / form->source_name, kMaxSourceBytes);
  if (!source) return source.error();
  form->source = std::move(*source);
  return form;
}

}  // namespace

Result<FreeForm> parse_candidate(std::string_view json_text, std::string source,
                                 const std::filesystem::path& descriptor) {
  return parse_form(json_text, std::move(source), descriptor, nullptr);
}

Result<FreeForm> parse_candidate(std::string_view json_text, std::string source,
                                 const std::filesystem::path& descriptor, const DescriptorNames& names) {
  return parse_form(json_text, std::move(source), descriptor, &names);
}

Result<FreeForm> load_candidate(const std::filesystem::path& path) { return load_form(path, nullptr); }

Result<FreeForm> load_candidate(const std::filesystem::path& path, const DescriptorNames& names) {
  return load_form(path, &names);
}

nlohmann::json describe_candidate(const Candidate& candidate, const std::string& name, const Problem& problem,
                                  const nlohmann::json& about) {
  nlohmann::json descriptor = std::get<CudaLaunch>(candidate.launch);
  descriptor["warpsmith_candidate"] = kFormatVersion;
  descriptor["name"] = name;
  descriptor["layouts"] = {to_string(problem.layout)};
  descriptor["elements"] = {to_string(problem.element)};
  if (problem.accumulator != AccumulatorType::f32) descriptor["accumulators"] = {to_string(problem.accumulator)};
  descriptor["requires"] = {fmt::format("m == {}", problem.m), fmt::format("n == {}", problem.n),
                            fmt::format("k == {}", problem.k)};
  if (!problem.packed()) {
    descriptor["leading_dimensions"] = true;
    for (const auto& [variable, ld] :
         {std::pair{"lda", problem.a_ld()}, {"ldb", problem.b_ld()}, {"ldc", problem.c_ld()}}) {
      descriptor["requires"].push_back(fmt::format("{} == {}", variable, ld));
    }
  }
  descriptor["arch"] = candidate.arch;
  if (candidate.order_nondeterministic) descriptor["order_nondeterministic"] = candidate.nondeterminism_reason;
  if (!about.is_null()) descriptor["about"] = about;
  return descriptor;
}

}  // namespace warpsmith
