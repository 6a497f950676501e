// `warpsmith index`: documents and code that prompts and data sets quote from.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli.h"
#include "llm/text_index.h"
#include "progress.h"

namespace warpsmith::cli {

namespace {

struct IndexArguments {
  std::vector<std::string> paths;
  std::string index, query;
  bool remove = false;
  bool quiet = false;
  int count = 5;
};

Result<int> print_search(const IndexArguments& arguments, llm::TextIndex& index) {
  const auto passages = index.search(arguments.query, static_cast<std::size_t>(arguments.count));
  if (!passages) return passages.error();
  for (const llm::Passage& passage : *passages) {
    fmt::print("--- {} ({:.2f})\n{}", passage.place, passage.score, passage.text);
  }
  if (passages->empty()) fmt::print("nothing is found\n");
  return passages->empty() ? kExitFailed : kExitOk;
}

Result<int> run_index(const IndexArguments& arguments) {
  const std::filesystem::path path =
      arguments.index.empty() ? llm::default_index_path() : std::filesystem::path(arguments.index);
  if (arguments.paths.empty() && arguments.query.empty())
    return bad_input("nothing to index; accepted: PATH... or --query");
  auto index = llm::TextIndex::open(path);
  if (!index) return index.error();
  llm::IndexReport sum;
  std::int64_t removed = 0;
  {
    ProgressLine line(arguments.quiet);
    for (const std::string& text : arguments.paths) {
      if (arguments.remove) {
        const auto count = (*index)->remove(text);
        if (!count) return count.error();
        removed += *count;
        continue;
      }
      const auto report = (*index)->add(text, [&line](const std::string& file) { line.update(-1, file); });
      if (!report) return report.error();
      sum.files += report->files;
      sum.unchanged += report->unchanged;
      sum.skipped += report->skipped;
      sum.passages += report->passages;
    }
  }
  if (arguments.remove) fmt::print("{}: {} files removed\n", path.string(), removed);
  if (!arguments.paths.empty() && !arguments.remove) {
    fmt::print("{}: {} files read ({} passages), {} unchanged, {} skipped\n", path.string(), sum.files, sum.passages,
               sum.unchanged, sum.skipped);
  }
  return arguments.query.empty() ? Result<int>(kExitOk) : print_search(arguments, **index);
}

}  // namespace

void add_index_command(CLI::App& app, Run& run) {
  auto arguments = std::make_shared<IndexArguments>();
  CLI::App* command = app.add_subcommand("index", "Make documents and code searchable for the prompts of policy llm");
  command->footer(
      "Reads Markdown, text, C++, CUDA, Python and PTX below each PATH. Again: only what has changed is read.");
  command->add_option("PATH", arguments->paths, "Files or directories");
  command->add_option("--index", arguments->index, "Index file; default: index.sqlite in the data directory");
  command->add_flag("--remove", arguments->remove, "Forget what is below each PATH");
  command->add_option("--query", arguments->query, "Print the passages that are nearest to these words");
  command->add_option("--count", arguments->count, "So many of them")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_flag("--quiet", arguments->quiet, "No progress line");
  command->callback([arguments, &run] {
    run = [arguments] {
      const auto code = run_index(*arguments);
      return code ? *code : report(code.error());
    };
  });
}

}  // namespace warpsmith::cli
