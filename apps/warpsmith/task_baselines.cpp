// Running the helper and reading its answer.
#include "task_baselines.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "base/paths.h"
#include "base/subprocess.h"
#include "base/text.h"

namespace warpsmith::cli {

namespace {

constexpr double kLimitSeconds = 150;  // compiling with PyTorch takes many of them
constexpr double kBeginSeconds = 90;   // after which no further subject is begun
constexpr std::size_t kReasonLimit = 200;

nlohmann::json not_run(const std::string& reason) { return {{"not_run", printable(reason, kReasonLimit)}}; }

std::string last_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  const std::size_t before = text.rfind('\n');
  return before == std::string::npos ? text : text.substr(before + 1);
}

bool is_series(const nlohmann::json& subject, const char* name) {
  const auto series = subject.find(name);
  if (series == subject.end() || !series->is_object() || !series->contains("median_us")) return false;
  const nlohmann::json& median_us = (*series)["median_us"];
  return median_us.is_number() && median_us.get<double>() > 0;
}

nlohmann::json describe(const task::Instance& instance, const TaskBaselineRequest& request) {
  auto inputs = nlohmann::json::array();
  const task::Task& task = *instance.task;
  for (std::size_t i = 0; i < task.inputs.size(); ++i) {
    const task::Input& input = task.inputs[i];
    nlohmann::json one = {{"name", input.name},
                          {"type", to_string(input.type)},
                          {"shape", instance.tensors[i].dims},
                          {"scale", input.scale},
                          {"shift", input.shift}};
    constexpr const char* kNames[] = {"normal", "uniform", "positive", "integers"};
    one["values"] = kNames[static_cast<int>(input.values)];
    if (input.values == task::Values::integers) {
      one["low"] = input.low.evaluate(instance.values().integers).value();
      one["high"] = input.high.evaluate(instance.values().integers).value();
    }
    inputs.push_back(std::move(one));
  }
  auto constants = nlohmann::json::object();
  std::size_t integer = 0, real = 0;
  for (const task::Constant& constant : task.constants) {
    if (constant.real) {
      constants[constant.name] = instance.values().reals[real++];
    } else {
      constants[constant.name] = instance.values().integers[integer++];
    }
  }
  return {{"task", task.name},
          {"inputs", inputs},
          {"constants", constants},
          {"baselines", task.baselines},
          {"bytes", instance.traffic_bytes},
          {"seconds", request.seconds},
          {"limit_seconds", kBeginSeconds},
          {"seed", request.seed},
          {"device", request.device}};
}

}  // namespace

nlohmann::json measure_task_baselines(const task::Task& task, Target target, const TaskBaselineRequest& request) {
  if (task.baselines.empty()) return not_run("the task names no baselines");
  const char* chosen = std::getenv("WARPSMITH_PYTHON");
  const std::filesystem::path helper = executable_dir() / "torch_task.py";
  if (!std::filesystem::exists(helper)) return not_run(fmt::format("{} is missing", helper.string()));
  ProcessRequest process;
  process.argv = {chosen != nullptr && *chosen != '\0' ? chosen : "python3", helper.string()};
  process.stdin_text = describe(task::instance_of(task, task.timed_on(target)), request).dump();
  process.limits.wall_seconds = kLimitSeconds;
  const auto output = run_process(process);
  if (!output) return not_run(output.error().message);
  if (!output->status.success()) {
    const std::string said = last_line(output->err);
    return not_run(said.empty() || output->status.timed_out ? output->status.describe() : said);
  }
  auto report = nlohmann::json::parse(last_line(output->out), nullptr, false);
  if (!report.is_object() || !report.contains("subjects") || !report["subjects"].is_array()) {
    return not_run("the helper's answer is no report: " + last_line(output->out));
  }
  for (const auto& subject : report["subjects"]) {
    const bool timed =
        subject.is_object() && is_series(subject, "cold") && (!subject.contains("warm") || is_series(subject, "warm"));
    const bool told = subject.is_object() && subject.contains("not_run") && subject["not_run"].is_string();
    if (!subject.is_object() || !subject.contains("subject") || !subject["subject"].is_string() || timed == told) {
      return not_run("the helper's answer is no report: " + last_line(output->out));
    }
  }
  return report;
}

}  // namespace warpsmith::cli
