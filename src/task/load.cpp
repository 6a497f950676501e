// Reading task.toml. The first thing that is wrong is reported, with the line and the place of its field.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "codegen/nearest.h"
#include "evaluate/backend.h"
#include "task/task.h"
#include "task/toml_reader.h"

namespace warpsmith::task {

namespace {

using nlohmann::json;

constexpr int kFormatVersion = 1;
constexpr std::size_t kMaxDocumentBytes = 1 << 20;
constexpr std::size_t kMaxTensors = 16, kMaxConstants = 16, kMaxSettings = 16, kMaxDims = 6;
// What gates may ask for beside the declared distributions, as task.toml names them.
constexpr InputKind kOfferedData[] = {InputKind::uniform, InputKind::positive, InputKind::wide_range, InputKind::large,
                                      InputKind::special, InputKind::zero_one, InputKind::offset};

bool is_name(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !text.empty() && text.size() <= 64 && letter(text.front()) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

bool is_file_name(std::string_view text) {
  return !text.empty() && text.size() <= 200 && text.front() != '.' &&
         text.find_first_of("/\\") == std::string_view::npos;
}

template <class T>
struct Word {
  std::string_view text;
  T value;
};
constexpr Word<TensorType> kTypes[] = {
    {"f16", TensorType::f16}, {"bf16", TensorType::bf16}, {"f32", TensorType::f32}, {"i32", TensorType::i32}};
constexpr Word<Values> kValues[] = {{"normal", Values::normal},
                                    {"uniform", Values::uniform},
                                    {"positive", Values::positive},
                                    {"integers", Values::integers}};

// A value of the document with its JSON pointer; `value` is null where it is absent.
struct Place {
  const json* value = nullptr;
  std::string pointer;
  explicit operator bool() const { return value != nullptr; }
};

class TaskReader {
 public:
  explicit TaskReader(const std::map<std::string, int>& lines) : lines_(lines) {}

  const std::optional<std::string>& complaint() const { return complaint_; }

  void read(const json& document, Task& task) {
    const Place root{&document, ""};
    if (!table(root, {"warpsmith_task", "about", "reference", "data", "traffic_bytes", "constant", "input", "output",
                      "setting", "baselines"}))
      return;
    const Place version = member(root, "warpsmith_task");
    if (!version) return complain("", fmt::format("not a task: warpsmith_task = {} is missing", kFormatVersion));
    demand(version.value->is_number_integer() && *version.value == kFormatVersion, version,
           fmt::format("unknown version; accepted: {}", kFormatVersion));
    task.about = text(needed(root, "about"));
    const Place reference = needed(root, "reference");
    task.reference_name = text(reference);
    demand(is_file_name(task.reference_name) &&
               (task.reference_name.ends_with(".cpp") || task.reference_name.ends_with(".cu")),
           reference, "expected the name of a .cpp or .cu file in the task's own directory");
    each(root, "constant", 1, kMaxConstants, [&](const Place& place) { read_constant(place, task); });
    variables_ = task.integer_names();
    each(root, "input", 1, kMaxTensors, [&](const Place& place) { read_input(place, task); });
    each(root, "output", 1, kMaxTensors, [&](const Place& place) { read_output(place, task); });
    each(root, "setting", 1, kMaxSettings, [&](const Place& place) { read_setting(place, task); });
    if (const Place traffic = member(root, "traffic_bytes")) task.traffic_bytes = expression(traffic);
    read_data(member(root, "data"), task);
    read_baselines(member(root, "baselines"), task);
  }

  void check_settings(const Task& task) {
    for (std::size_t i = 0; i < task.settings.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const Setting &one = task.settings[i], &other = task.settings[j];
        if (one.integers == other.integers && one.reals == other.reals && one.target == other.target)
          complain(fmt::format("/setting/{}", i), fmt::format("the same constants as setting {}", j));
      }
      check_instance(task, i);
    }
    check_variety(task);
    for (const Target target : {Target::cpu, Target::sm90}) {
      const auto numbers = task.settings_on(target);
      const char* where = is_cuda(target) ? "cuda" : "cpu";
      if (numbers.size() < kFewestSettings) {
        complain("/setting", fmt::format("{} of them apply to target {}; accepted: at least {}", numbers.size(), where,
                                         kFewestSettings));
      }
      const auto timed = std::count_if(numbers.begin(), numbers.end(), [&](int number) {
        return task.settings[static_cast<std::size_t>(number)].timed;
      });
      if (timed != 1) {
        complain("/setting",
                 fmt::format("{} of those that apply to target {} say timed = true; accepted: one", timed, where));
      }
    }
  }

 private:
  // --- the first complaint is kept ---
  void complain(const std::string& pointer, std::string_view what) {
    if (complaint_) return;
    const auto line = lines_.find(pointer);
    const std::string at = line == lines_.end() || pointer.empty() ? "" : fmt::format("line {}: ", line->second);
    complaint_ = fmt::format("{}{}{}{}", at, pointer, pointer.empty() ? "" : ": ", what);
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
  Place needed(const Place& object, const std::string& name) {
    Place place = member(object, name);
    if (!place) complain(object.pointer, fmt::format("'{}' is missing", name));
    return place;
  }

  bool table(const Place& place, const std::vector<std::string_view>& fields) {
    if (!demand(place && place.value->is_object(), place, "expected a table")) return false;
    for (const auto& [name, value] : place.value->items()) {
      if (std::find(fields.begin(), fields.end(), name) != fields.end()) continue;
      complain(fmt::format("{}/{}", place.pointer, name), unknown_name("field", name, fields));
      return false;
    }
    return true;
  }

  template <class Body>
  void each(const Place& root, const std::string& name, std::size_t least, std::size_t most, Body body) {
    const Place list = member(root, name);
    const std::size_t size = list && list.value->is_array() ? list.value->size() : 0;
    if (list && !list.value->is_array()) return complain(list.pointer, fmt::format("expected [[{}]] tables", name));
    if (size < least || size > most) {
      return complain(list ? list.pointer : "",
                      fmt::format("{} [[{}]] tables; accepted: {} to {}", size, name, least, most));
    }
    for (std::size_t i = 0; i < size; ++i) body(Place{&(*list.value)[i], fmt::format("{}/{}", list.pointer, i)});
  }

  std::string text(const Place& place) {
    if (!place) return {};
    return demand(place.value->is_string(), place, "expected text") ? place.value->get<std::string>() : "";
  }
  bool boolean(const Place& place) {
    return place && demand(place.value->is_boolean(), place, "expected true or false") && place.value->get<bool>();
  }
  double number(const Place& place, double fallback) {
    if (!place || !demand(place.value->is_number(), place, "expected a number")) return fallback;
    const double value = place.value->get<double>();
    return demand(std::isfinite(value), place, "expected a finite number") ? value : fallback;
  }
  double tolerance(const Place& place) {
    const double value = number(place, 0);
    demand(value >= 0 && value < 1, place, "expected a number from 0 to below 1");
    return value;
  }

  template <class T, std::size_t count>
  T word(const Place& place, const Word<T> (&words)[count], T fallback) {
    if (!place) return fallback;
    const std::string given = text(place);
    std::vector<std::string_view> known;
    for (const auto& [name, value] : words) {
      if (given == name) return value;
      known.push_back(name);
    }
    complain(place.pointer, unknown_name("word", given, known));
    return fallback;
  }

  Expression expression(const Place& place) {
    if (!place) return {};
    if (place.value->is_number_integer()) return Expression(place.value->get<std::int64_t>());
    if (!demand(place.value->is_string(), place, "expected a whole number or an expression as text")) return {};
    auto parsed = Expression::parse(place.value->get<std::string>(), variables_);
    if (parsed) return std::move(*parsed);
    complain(place.pointer, fmt::format("{} in '{}'", parsed.error().message, printable(text(place), 120)));
    return {};
  }

  // --- sections ---
  std::string new_name(const Place& table) {
    const Place place = needed(table, "name");
    const std::string name = text(place);
    demand(is_name(name), place, "expected a name: letters, digits and '_'");
    const bool taken = name == "sms" || name == "workspace" || name.ends_with("_scale") || !names_.insert(name).second;
    demand(!taken, place,
           fmt::format("'{}' is taken; names are unique, and sms, workspace and ..._scale are not accepted",
                       printable(name)));
    return name;
  }

  void read_constant(const Place& place, Task& task) {
    if (!table(place, {"name", "type"})) return;
    constexpr Word<bool> kKinds[] = {{"int", false}, {"float", true}};
    task.constants.push_back({new_name(place), word(needed(place, "type"), kKinds, false)});
  }

  std::vector<Expression> shape(const Place& place) {
    std::vector<Expression> dims;
    if (!place || !demand(place.value->is_array() && !place.value->empty() && place.value->size() <= kMaxDims, place,
                          fmt::format("expected a list of 1 to {} sizes", kMaxDims)))
      return dims;
    for (std::size_t i = 0; i < place.value->size(); ++i) {
      dims.push_back(expression({&(*place.value)[i], fmt::format("{}/{}", place.pointer, i)}));
    }
    return dims;
  }

  void read_input(const Place& place, Task& task) {
    if (!table(place, {"name", "type", "shape", "values", "scale", "shift", "offset", "low", "high", "fixed"})) return;
    Input input;
    input.name = new_name(place);
    input.type = word(needed(place, "type"), kTypes, TensorType::f16);
    input.shape = shape(needed(place, "shape"));
    const bool whole = input.type == TensorType::i32;
    input.values = word(member(place, "values"), kValues, whole ? Values::integers : Values::normal);
    demand(whole == (input.values == Values::integers), member(place, "values"),
           "integers are the values of i32 inputs, and of no others");
    input.scale = number(member(place, "scale"), 1);
    input.shift = number(member(place, "shift"), 0);
    input.offset = number(member(place, "offset"), 0);
    input.fixed = boolean(member(place, "fixed")) || whole;
    demand(input.offset == 0 || !input.fixed, member(place, "offset"), "a fixed input is never moved");
    if (whole) {
      input.low = expression(member(place, "low"));
      input.high = expression(needed(place, "high"));
    } else {
      for (const char* name : {"low", "high"}) demand(!member(place, name), member(place, name), "of i32 inputs alone");
    }
    task.inputs.push_back(std::move(input));
  }

  void read_output(const Place& place, Task& task) {
    if (!table(place, {"name", "type", "shape", "exact", "relative", "absolute", "scaled"})) return;
    Output output;
    output.name = new_name(place);
    output.type = word(needed(place, "type"), kTypes, TensorType::f16);
    output.shape = shape(needed(place, "shape"));
    Tolerance& allowed = output.tolerance;
    allowed.exact = boolean(member(place, "exact")) || output.type == TensorType::i32;
    allowed.relative = tolerance(member(place, "relative"));
    allowed.absolute = tolerance(member(place, "absolute"));
    allowed.scaled = boolean(member(place, "scaled"));
    const bool bounded = member(place, "relative") || member(place, "absolute");
    if (allowed.exact) {
      demand(!bounded && !allowed.scaled, place, "an exact output has no tolerance; whole numbers are always exact");
    } else {
      demand(bounded, place, "no tolerance; accepted: exact = true, or relative and absolute");
    }
    task.outputs.push_back(std::move(output));
  }

  void read_setting(const Place& place, Task& task) {
    std::vector<std::string_view> fields = {"timed", "target"};
    for (const Constant& constant : task.constants) fields.push_back(constant.name);
    if (!table(place, fields)) return;
    Setting setting;
    for (const Constant& constant : task.constants) {
      const Place value = needed(place, constant.name);
      if (!value) return;
      if (constant.real) {
        setting.reals.push_back(number(value, 0));
      } else if (demand(value.value->is_number_integer(), value, "expected a whole number")) {
        setting.integers.push_back(value.value->get<std::int64_t>());
        demand(std::abs(setting.integers.back()) <= std::numeric_limits<std::int32_t>::max(), value,
               "expected a number of 32 bits");
      } else {
        return;
      }
    }
    setting.timed = boolean(member(place, "timed"));
    setting.target = text(member(place, "target"));
    demand(setting.target.empty() || setting.target == "cpu" || setting.target == "cuda", member(place, "target"),
           "expected \"cpu\" or \"cuda\"");
    task.settings.push_back(std::move(setting));
  }

  void read_data(const Place& place, Task& task) {
    if (!place) return complain("", "'data' is missing: the further distributions of the gates, such as [\"uniform\"]");
    if (!demand(place.value->is_array(), place, "expected a list of distributions")) return;
    for (std::size_t i = 0; i < place.value->size(); ++i) {
      const Place entry{&(*place.value)[i], fmt::format("{}/{}", place.pointer, i)};
      const std::string given = text(entry);
      std::vector<std::string_view> known;
      for (const InputKind kind : kOfferedData) {
        known.push_back(warpsmith::to_string(kind));
        if (given == known.back()) task.data.push_back(kind);
      }
      demand(std::find(known.begin(), known.end(), given) != known.end(), entry,
             unknown_name("distribution", given, known));
    }
    const bool asked = std::find(task.data.begin(), task.data.end(), InputKind::offset) != task.data.end();
    const bool moved =
        std::any_of(task.inputs.begin(), task.inputs.end(), [](const Input& input) { return input.offset != 0; });
    demand(asked == moved, place, "\"offset\" goes with an input's own 'offset', and that with it");
  }

  void read_baselines(const Place& place, Task& task) {
    if (!place || !table(place, {"torch", "cudnn"})) return;
    for (const auto& [name, value] : place.value->items()) {
      task.baselines[name] = text({&value, fmt::format("{}/{}", place.pointer, name)});
    }
  }

  // --- what the whole has to be ---
  void check_shape(const std::string& pointer, const std::vector<Expression>& shape, TensorType type,
                   const std::vector<std::int64_t>& values, const std::string& where) {
    std::int64_t bytes = size_of(type);
    for (std::size_t i = 0; i < shape.size(); ++i) {
      const auto size = shape[i].evaluate(values);
      const std::string place = fmt::format("{}/shape/{}", pointer, i);
      if (!size) return complain(place, fmt::format("{} in '{}' at {}", size.error().message, shape[i].text(), where));
      if (*size < 1)
        return complain(place, fmt::format("'{}' is {} at {}; accepted: 1 or more", shape[i].text(), *size, where));
      if (__builtin_mul_overflow(bytes, *size, &bytes) || bytes > kMaxTensorBytes) {
        return complain(place, fmt::format("more than {} MiB at {}", kMaxTensorBytes >> 20, where));
      }
    }
  }

  void check_instance(const Task& task, std::size_t number) {
    const Setting& setting = task.settings[number];
    const std::string where = describe(task, setting);
    for (std::size_t i = 0; i < task.inputs.size(); ++i) {
      const Input& input = task.inputs[i];
      const std::string pointer = fmt::format("/input/{}", i);
      check_shape(pointer, input.shape, input.type, setting.integers, where);
      if (input.values != Values::integers) continue;
      const auto low = input.low.evaluate(setting.integers), high = input.high.evaluate(setting.integers);
      constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
      if (!low || !high || *low >= *high || *low < -kMost || *high > kMost) {
        complain(pointer + "/high", fmt::format("no whole number of 32 bits lies between low and high at {}", where));
      }
    }
    for (std::size_t i = 0; i < task.outputs.size(); ++i) {
      check_shape(fmt::format("/output/{}", i), task.outputs[i].shape, task.outputs[i].type, setting.integers, where);
    }
    if (!task.traffic_bytes) return;
    const auto bytes = task.traffic_bytes->evaluate(setting.integers);
    if (!bytes || *bytes < 1) complain("/traffic_bytes", fmt::format("not a positive number at {}", where));
  }

  // A constant that never varies proves nothing about kernels that ignore it.
  void check_variety(const Task& task) {
    std::size_t integer = 0, real = 0;
    for (std::size_t i = 0; i < task.constants.size(); ++i) {
      std::set<double> values;
      for (const Setting& setting : task.settings) {
        values.insert(task.constants[i].real ? setting.reals[real] : static_cast<double>(setting.integers[integer]));
      }
      ++(task.constants[i].real ? real : integer);
      if (values.size() < 2) {
        complain(fmt::format("/constant/{}", i),
                 fmt::format("'{}' has one value in all settings; accepted: two or more", task.constants[i].name));
      }
    }
  }

  const std::map<std::string, int>& lines_;
  std::vector<std::string> variables_;
  std::set<std::string> names_;
  std::optional<std::string> complaint_;
};

Result<std::string> read_part(const std::filesystem::path& path, std::size_t most) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return bad_input(fmt::format("{}: no such file", path.string()));
  const auto size = std::filesystem::file_size(path, error);
  if (!error && size > most) {
    return bad_input(fmt::format("{}: {} bytes; at most {} are accepted", path.string(), size, most));
  }
  return read_file(path);
}

Status read_reference(Task& task) {
  auto source = read_part(task.directory / task.reference_name, kMaxSourceBytes);
  if (!source) return source.error();
  task.reference_source = std::move(*source);
  if (!task.reference_name.ends_with(".cu")) return ok_status();
  std::filesystem::path path = task.directory / task.reference_name;
  auto descriptor = read_part(path.replace_extension(".json"), kMaxDescriptorBytes);
  if (!descriptor) return descriptor.error();
  task.reference_descriptor = std::move(*descriptor);
  return ok_status();
}

}  // namespace

Result<Task> load_task(const std::filesystem::path& given) {
  std::error_code error;
  const bool is_directory = std::filesystem::is_directory(given, error);
  const std::filesystem::path path = is_directory ? given / "task.toml" : given;
  if (!is_directory && given.filename() != "task.toml") {
    return bad_input(fmt::format("{}: a task is named by its directory or its task.toml", given.string()));
  }
  const auto document_text = read_part(path, kMaxDocumentBytes);
  if (!document_text) return document_text.error();
  const auto complain = [&](const std::string& what) { return bad_input(fmt::format("{}: {}", path.string(), what)); };
  const auto document = parse_toml(*document_text);
  if (!document) return complain(document.error().message);
  Task task;
  task.directory = std::filesystem::absolute(path, error).lexically_normal().parent_path();
  task.name = task.directory.filename().string();
  TaskReader reader(document->lines);
  reader.read(document->root, task);
  if (!reader.complaint()) reader.check_settings(task);
  if (reader.complaint()) return complain(*reader.complaint());
  if (const Status read = read_reference(task); !read) return read.error();
  HashInput hash;
  hash.add(*document_text).add(task.reference_source).add(task.reference_descriptor);
  task.identity = fmt::format("{} {}", task.name, hash.hex().substr(0, 16));
  return task;
}

}  // namespace warpsmith::task
