# Script, run at each build: writes OUT, a C++ file with the commit of SOURCE_DIR, and leaves it alone when that is the
# same as before, so that nothing is compiled again.
execute_process(
  COMMAND git --no-optional-locks describe --always --dirty --exclude=* --abbrev=12
  WORKING_DIRECTORY ${SOURCE_DIR} OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
if(NOT status EQUAL 0 OR NOT commit MATCHES "^[0-9a-f]+(-dirty)?$")
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "// The commit of the build.
#include \"build_commit.h\"
namespace warpsmith::cli {
const char* const kBuildCommit = \"${commit}\";
}  // namespace warpsmith::cli
")
