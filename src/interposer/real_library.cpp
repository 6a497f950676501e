// A program that links cuBLAS has it behind us in its own search order; one that opened it at run time (Python) does
// not, and there it is looked for among all that is loaded.
#include "interposer/real_library.h"

#include <dlfcn.h>
#include <link.h>

#include <string>

namespace warpsmith::interposer {

namespace {

struct Search {
  std::string_view file;
  std::string path;
};

int visit(dl_phdr_info* info, std::size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  const std::string_view path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
  const std::string_view name = path.substr(path.rfind('/') + 1);  // npos + 1 is 0
  if (name.substr(0, search.file.size()) != search.file) return 0;
  search.path = path;
  return 1;
}

}  // namespace

void* find_real(std::string_view file, const char* function) {
  if (void* next = dlsym(RTLD_NEXT, function); next != nullptr) return next;
  Search search{file, {}};
  dl_iterate_phdr(visit, &search);
  if (search.path.empty()) return nullptr;
  void* library = dlopen(search.path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  return library == nullptr ? nullptr : dlsym(library, function);
}

}  // namespace warpsmith::interposer
