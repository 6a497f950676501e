// Values of the templates, and the way back from an answer.
#include "task/models/task_prompts.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "llm/answer.h"
#include "report/table.h"

namespace warpsmith::task {

namespace {

std::string unended(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::string machine_text(const TaskSession& session) {
  const Machine& machine = session.machine();
  std::string text =
      fmt::format("{}, {} {}", machine.name, machine.units, machine.kind == "cuda" ? "multiprocessors" : "threads");
  if (machine.smem_bytes_per_block > 0) {
    text += fmt::format(", {} KiB of shared memory for a block", machine.smem_bytes_per_block >> 10);
  }
  if (machine.l2_bytes > 0) text += fmt::format(", {} KiB of L2", machine.l2_bytes >> 10);
  if (machine.avx512) text += ", AVX-512";
  if (machine.peak_gb_per_s > 0)
    text += fmt::format(", {} GB/s of memory bandwidth", significant(machine.peak_gb_per_s));
  return text + ".";
}

// A descriptor to start from, with this task's names.
std::string form_text(const TaskSession& session) {
  const Task& task = session.task();
  if (!is_cuda(session.target())) {
    return "{\n  \"warpsmith_candidate\": 1,\n  \"source\": \"answer.cpp\",\n  \"entry\": \"kernel\"\n}";
  }
  std::string arguments;
  const DescriptorNames names = task.names();
  const auto add = [&](const char* kind, const std::string& name) {
    arguments += fmt::format("{}{{\"{}\": \"{}\"}}", arguments.empty() ? "" : ", ", kind, name);
  };
  for (const std::string& pointer : names.pointers) add("pointer", pointer);
  for (const std::string& integer : task.integer_names()) add("int32", integer);
  for (const std::string& real : names.numbers) add("float32", real);
  return fmt::format(
      "{{\n  \"warpsmith_candidate\": 1,\n  \"kernels\": [\n    {{\n      \"entry\": \"kernel\",\n      \"grid\": "
      "[\"{}\"],\n"
      "      \"block\": [256],\n      \"arguments\": [{}]\n    }}\n  ]\n}}",
      task.integer_names().empty() ? "1" : task.integer_names().front(), arguments);
}

Result<llm::Template> load(const std::filesystem::path& directory, const char* file,
                           const std::vector<std::string>& names) {
  const auto text = read_file(directory / file);
  if (!text) return text.error();
  return llm::Template::parse(*text, (directory / file).string(), names);
}

}  // namespace

Result<TaskPrompts> TaskPrompts::find(const std::string& chosen) {
  auto shared = llm::Prompts::find(chosen);
  if (!shared) return shared.error();
  TaskPrompts prompts;
  prompts.shared = std::move(*shared);
  const std::vector<std::string> names = {"statement", "machine", "arguments", "form", "exemplars", "failures"};
  struct Entry {
    const char* file;
    llm::Template* place;
    std::vector<std::string> names;
  };
  for (const Entry& entry : {Entry{"task_system.md", &prompts.system, {}},
                             {"task_cuda.md", &prompts.cuda, names},
                             {"task_cpu.md", &prompts.cpu, names}}) {
    auto parsed = load(prompts.shared.directory, entry.file, entry.names);
    if (!parsed) return parsed.error();
    *entry.place = std::move(*parsed);
  }
  return prompts;
}

std::vector<llm::Message> propose(const TaskPrompts& prompts, const TaskSession& session,
                                  const std::vector<ShownCandidate>& exemplars,
                                  const std::vector<std::string>& failures) {
  llm::TemplateValues values;
  values["statement"] = unended(session.statement());
  values["machine"] = machine_text(session);
  values["arguments"] = unended(candidate_prologue(session.task()));
  values["form"] = form_text(session);
  std::string shown;
  for (std::size_t i = 0; i < exemplars.size(); ++i) {
    const ShownCandidate& one = exemplars[i];
    shown +=
        (i == 0 ? "" : "\n") + prompts.shared.exemplar.render(
                                   {{"number", std::to_string(i + 1)},
                                    {"time", fmt::format("{} us", significant(one.time_us))},
                                    {"speedup", one.speedup > 0 ? fmt::format("{:.3f}", one.speedup) : std::string()},
                                    {"source", unended(one.source)},
                                    {"descriptor", unended(one.descriptor)}});
  }
  values["exemplars"] = unended(shown);
  std::string list;
  for (const std::string& failure : failures) list += fmt::format("{}- {}", list.empty() ? "" : "\n", failure);
  values["failures"] = list;
  const bool cuda = is_cuda(session.target());
  return {{"system", prompts.system.render({})}, {"user", (cuda ? prompts.cuda : prompts.cpu).render(values)}};
}

Result<TaskCandidate> read_answer(const TaskSession& session, const std::string& text) {
  const auto sections = llm::split_sections(text);
  if (!sections) return sections.error();
  const bool cuda = is_cuda(session.target());
  const auto block = [&](const std::vector<std::string>& infos) -> const llm::CodeBlock* {
    const auto found = std::find_if(sections->blocks.begin(), sections->blocks.end(), [&](const llm::CodeBlock& one) {
      return std::find(infos.begin(), infos.end(), one.info) != infos.end();
    });
    return found == sections->blocks.end() ? nullptr : &*found;
  };
  const llm::CodeBlock* source =
      cuda ? block({"cuda", "cu", "cpp", "c++"}) : block({"cpp", "c++", "cxx", "cc", "cuda"});
  const llm::CodeBlock* descriptor = block({"json"});
  if (source == nullptr)
    return bad_input(fmt::format("section \"## Code\" holds no ```{} block", cuda ? "cuda" : "cpp"));
  if (descriptor == nullptr) return bad_input("section \"## Code\" holds no ```json block with the descriptor");
  return session.parse(source->text, descriptor->text);
}

}  // namespace warpsmith::task
