// Values of the templates, and the way back from an answer.
#include "task/models/task_prompts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/file.h"
#include "llm/answer.h"
#include "report/table.h"

namespace warpsmith::task {

namespace {

std::string unended(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::string machine_text(const Machine& machine) {
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
std::string form_text(const Task& task, Target target) {
  if (!is_cuda(target)) {
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

// As a word of its own: every source has an x in "extern".
bool mentions(const std::string& source, const std::string& name) {
  const auto inside = [&](std::size_t at) {
    return at < source.size() && (std::isalnum(static_cast<unsigned char>(source[at])) != 0 || source[at] == '_');
  };
  for (std::size_t at = source.find(name); at != std::string::npos; at = source.find(name, at + 1)) {
    if ((at == 0 || !inside(at - 1)) && !inside(at + name.size())) return true;
  }
  return false;
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
  const std::vector<std::string> names = {"statement", "machine",  "arguments", "form",
                                          "exemplars", "failures", "retrieved", "headers"};
  struct Entry {
    const char* file;
    llm::Template* place;
    std::vector<std::string> names;
  };
  for (const Entry& entry : {Entry{"task_system.md", &prompts.system, {}},
                             {"task_cuda.md", &prompts.cuda, names},
                             {"task_cpu.md", &prompts.cpu, names},
                             {"task_checker.md",
                              &prompts.checker,
                              {"statement", "language", "time", "leap", "source", "descriptor", "hacks", "rules"}}}) {
    auto parsed = load(prompts.shared.directory, entry.file, entry.names);
    if (!parsed) return parsed.error();
    *entry.place = std::move(*parsed);
  }
  return prompts;
}

std::vector<llm::Message> propose(const TaskPrompts& prompts, const Task& task, Target target, const Machine& machine,
                                  const std::vector<ShownCandidate>& exemplars,
                                  const std::vector<std::string>& failures, const std::vector<llm::Passage>& retrieved,
                                  const std::string& headers) {
  llm::TemplateValues values;
  values["statement"] = unended(statement_of(task, target));
  values["machine"] = machine_text(machine);
  values["arguments"] = unended(candidate_prologue(task));
  values["form"] = form_text(task, target);
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
  std::string passages;
  for (const llm::Passage& passage : retrieved) {
    passages += fmt::format("{}## {}\n{}\n", passages.empty() ? "" : "\n", passage.place, unended(passage.text));
  }
  values["retrieved"] = unended(passages);
  values["headers"] = headers;
  return {{"system", prompts.system.render({})},
          {"user", (is_cuda(target) ? prompts.cuda : prompts.cpu).render(values)}};
}

std::vector<llm::Message> check_prompt(const TaskPrompts& prompts, const Task& task, Target target,
                                       const TaskCandidate& candidate, double time_us, const std::string& leap,
                                       const std::vector<llm::Suspicion>& suspicions,
                                       const std::vector<llm::KnownHack>& similar) {
  llm::TemplateValues values;
  values["statement"] = unended(statement_of(task, target));
  values["language"] = is_cuda(target) ? "cuda" : "cpp";
  values["time"] = fmt::format("{} us", significant(time_us));
  values["leap"] = leap;
  values["source"] = unended(candidate.form.source);
  values["descriptor"] = unended(candidate.descriptor);
  std::string hacks, rules;
  for (const llm::KnownHack& hack : similar) hacks += fmt::format("- {}: {}\n", hack.name, hack.text);
  for (const llm::Suspicion& one : suspicions) rules += fmt::format("- {}: {}\n", one.rule, one.finding);
  values["hacks"] = unended(hacks);
  values["rules"] = unended(rules);
  return {{"user", prompts.checker.render(values)}};
}

std::vector<llm::Suspicion> find_suspicions(const Task& task, const TaskCandidate& candidate) {
  auto suspicions = llm::find_suspicions(candidate.form);
  // What is precise enough is the task's tolerance to say.
  std::erase_if(suspicions, [](const llm::Suspicion& one) { return one.rule == llm::kHalfSums; });
  for (std::size_t i = 0; i < task.inputs.size(); ++i) {
    const auto given = [i](const KernelForm& kernel) {
      return std::any_of(kernel.arguments.begin(), kernel.arguments.end(), [i](const ArgumentForm& argument) {
        return argument.kind == KernelArgument::Kind::pointer && argument.named == i;
      });
    };
    const std::string& name = task.inputs[i].name;
    const bool read = candidate.form.language == Language::cuda
                          ? std::any_of(candidate.form.kernels.begin(), candidate.form.kernels.end(), given)
                          : mentions(candidate.form.source, name);
    if (!read) suspicions.push_back(llm::unread_operand(name));
  }
  return suspicions;
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
