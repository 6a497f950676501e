// warpsmith: the command line. Parses arguments and calls src/.
#include <fmt/format.h>

#include <exception>
#include <string>

#include "base/result.h"
#include "base/text.h"
#include "cli.h"

int main(int argc, char** argv) {
  using namespace warpsmith::cli;
  CLI::App app("Finds, proves and ships fast half-precision matrix-multiplication kernels.", "warpsmith");
  app.set_version_flag("--version", "warpsmith " WARPSMITH_VERSION);
  app.require_subcommand(1);
  app.failure_message([](const CLI::App* failed, const CLI::Error& error) {
    return fmt::format("warpsmith: {} (see {} --help)\n", error.what(),
                       failed->get_parent() == nullptr ? "warpsmith" : failed->get_name());
  });
  Run run;
  add_optimize_command(app, run);
  add_tune_command(app, run);
  add_sweep_command(app, run);
  add_bench_command(app, run);
  add_info_command(app, run);
  add_rank_command(app, run);
  add_dataset_command(app, run);
  add_train_command(app, run);
  add_serve_command(app, run);
  add_index_command(app, run);
  add_audit_command(app, run);
  add_export_command(app, run);
  add_survey_command(app, run);
  add_report_command(app, run);
  add_pack_command(app, run);
  install_interrupt_handler();
  if (argc > 1 && argv[1][0] != '-') {
    std::string commands;
    bool known = false;
    for (const CLI::App* command : app.get_subcommands({})) {
      known = known || command->get_name() == argv[1];
      if (!commands.empty()) commands += ", ";
      commands += command->get_name();
    }
    if (!known) {
      return report(warpsmith::bad_input(
          fmt::format("unknown command '{}'; accepted: {}", warpsmith::printable(argv[1]), commands)));
    }
  }
  try {
    app.parse(argc, argv);
    return run ? run() : kExitOk;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitBadInput;
  } catch (const warpsmith::EnvironmentError& error) {
    return report(warpsmith::environment_error(error.what()));
  } catch (const std::exception& error) {
    return report(warpsmith::failure(error.what()));
  }
}
