// Redirects a function of the process that has loaded this library: every object's table of imported functions is
// rewritten, so that callers which were linked long before call the replacement.
#pragma once

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

namespace patch {

struct Request {
  const char* name;
  void* replacement;
  void* own_base;  // of this library, which keeps the original
  int patched;
};

struct Tables {
  const ElfW(Sym) * symbols = nullptr;
  const char* strings = nullptr;
  const ElfW(Rela) * relocations[2] = {nullptr, nullptr};  // of functions, of data
  size_t bytes[2] = {0, 0};
};

// glibc stores addresses in the dynamic section; other loaders store offsets.
template <class T>
const T* located(ElfW(Addr) value, ElfW(Addr) base) {
  return reinterpret_cast<const T*>(value < base ? base + value : value);
}

inline Tables tables_of(const dl_phdr_info& object) {
  Tables tables;
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    if (object.dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    const auto* entry = reinterpret_cast<const ElfW(Dyn)*>(object.dlpi_addr + object.dlpi_phdr[i].p_vaddr);
    for (; entry->d_tag != DT_NULL; ++entry) {
      const ElfW(Addr) value = entry->d_un.d_ptr;
      if (entry->d_tag == DT_SYMTAB) tables.symbols = located<ElfW(Sym)>(value, object.dlpi_addr);
      if (entry->d_tag == DT_STRTAB) tables.strings = located<char>(value, object.dlpi_addr);
      if (entry->d_tag == DT_JMPREL) tables.relocations[0] = located<ElfW(Rela)>(value, object.dlpi_addr);
      if (entry->d_tag == DT_RELA) tables.relocations[1] = located<ElfW(Rela)>(value, object.dlpi_addr);
      if (entry->d_tag == DT_PLTRELSZ) tables.bytes[0] = entry->d_un.d_val;
      if (entry->d_tag == DT_RELASZ) tables.bytes[1] = entry->d_un.d_val;
    }
  }
  return tables;
}

inline void overwrite(void** slot, void* value) {
  const auto page = reinterpret_cast<uintptr_t>(slot) & ~static_cast<uintptr_t>(getpagesize() - 1);
  if (mprotect(reinterpret_cast<void*>(page), static_cast<size_t>(getpagesize()) * 2, PROT_READ | PROT_WRITE) != 0 &&
      mprotect(reinterpret_cast<void*>(page), static_cast<size_t>(getpagesize()), PROT_READ | PROT_WRITE) != 0) {
    return;
  }
  *slot = value;
}

inline int visit(dl_phdr_info* object, size_t, void* data) {
  auto* request = static_cast<Request*>(data);
  if (reinterpret_cast<void*>(object->dlpi_addr) == request->own_base) return 0;
  const Tables tables = tables_of(*object);
  if (tables.symbols == nullptr || tables.strings == nullptr) return 0;
  for (int table = 0; table < 2; ++table) {
    const size_t count = tables.relocations[table] != nullptr ? tables.bytes[table] / sizeof(ElfW(Rela)) : 0;
    for (size_t i = 0; i < count; ++i) {
      const ElfW(Rela)& relocation = tables.relocations[table][i];
      const auto type = ELF64_R_TYPE(relocation.r_info);
      if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) continue;
      const char* name = tables.strings + tables.symbols[ELF64_R_SYM(relocation.r_info)].st_name;
      if (std::strcmp(name, request->name) != 0) continue;
      overwrite(reinterpret_cast<void**>(object->dlpi_addr + relocation.r_offset), request->replacement);
      ++request->patched;
    }
  }
  return 0;
}

// How many places now call `replacement` instead of the function `name`.
template <class Function>
int redirect(const char* name, Function* replacement) {
  Dl_info own{};
  dladdr(reinterpret_cast<void*>(&visit), &own);
  Request request{name, reinterpret_cast<void*>(replacement), own.dli_fbase, 0};
  dl_iterate_phdr(&visit, &request);
  return request.patched;
}

}  // namespace patch
