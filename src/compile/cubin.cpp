// A bounds-checked reader of ELF64 section and symbol tables: a cubin is made from a candidate's text, so nothing in it
// is taken on trust.
#include "compile/cubin.h"

#include <elf.h>
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <optional>

#include "base/text.h"

namespace warpsmith {

namespace {

constexpr std::uint16_t kMachineCuda = 190;
constexpr unsigned char kManaged = 0x04;  // bits of st_other that CUDA uses
constexpr unsigned char kEntry = 0x10;

class Elf {
 public:
  explicit Elf(std::string_view bytes) : bytes_(bytes) {}

  Result<CubinFacts> read() {
    const auto header = at<Elf64_Ehdr>(0);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
        header->e_machine != kMachineCuda || header->e_shentsize != sizeof(Elf64_Shdr)) {
      return failure("the compiler's output is not a cubin");
    }
    for (std::size_t i = 0; i < header->e_shnum; ++i) {
      const auto section = at<Elf64_Shdr>(header->e_shoff, i);
      if (!section) return malformed();
      sections_.push_back(*section);
    }
    if (header->e_shstrndx >= sections_.size()) return malformed();
    names_ = sections_[header->e_shstrndx];
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type == SHT_SYMTAB && !read_symbols(section)) return malformed();
    }
    return facts_;
  }

 private:
  static Error malformed() { return failure("the cubin's tables are malformed"); }

  // Item `index` of a table at `offset`; nullopt: beyond the end.
  template <class T>
  std::optional<T> at(std::uint64_t offset, std::uint64_t index = 0) const {
    if (offset > bytes_.size() || index > bytes_.size() / sizeof(T)) return std::nullopt;
    if (bytes_.size() - offset < (index + 1) * sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, bytes_.data() + offset + index * sizeof(T), sizeof(T));
    return value;
  }

  // The string at `offset` of a string table; nullopt: it leaves the table.
  std::optional<std::string> text(const Elf64_Shdr& table, std::uint64_t offset) const {
    if (table.sh_offset > bytes_.size() || table.sh_size > bytes_.size() - table.sh_offset) return std::nullopt;
    const std::string_view strings = bytes_.substr(table.sh_offset, table.sh_size);
    if (offset >= strings.size()) return std::nullopt;
    const std::size_t end = strings.find('\0', offset);
    if (end == std::string_view::npos) return std::nullopt;
    return std::string(strings.substr(offset, end - offset));
  }

  bool read_symbols(const Elf64_Shdr& table) {
    if (table.sh_link >= sections_.size() || table.sh_entsize != sizeof(Elf64_Sym)) return false;
    const std::uint64_t count = table.sh_size / sizeof(Elf64_Sym);
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto symbol = at<Elf64_Sym>(table.sh_offset, i);
      if (!symbol) return false;
      const auto name = text(sections_[table.sh_link], symbol->st_name);
      if (!name || !classify(*symbol, *name)) return false;
    }
    return true;
  }

  bool classify(const Elf64_Sym& symbol, const std::string& name) {
    const auto type = ELF64_ST_TYPE(symbol.st_info);
    if (symbol.st_shndx == SHN_UNDEF) {
      // The linker's own symbols (reserved shared memory) start with a dot.
      if (!name.empty() && name.front() != '.') facts_.externals.push_back(name);
      return true;
    }
    if (symbol.st_shndx >= SHN_LORESERVE) return true;
    if (symbol.st_shndx >= sections_.size()) return false;
    const auto section = text(names_, sections_[symbol.st_shndx].sh_name);
    if (!section) return false;
    if (type == STT_FUNC && (symbol.st_other & kEntry) != 0) facts_.entries.push_back(name);
    const bool constant = section->starts_with(".nv.constant3");
    if (type == STT_OBJECT && (constant || section->starts_with(".nv.global"))) {
      facts_.variables.push_back(
          {name, symbol.st_size, symbol.st_shndx, symbol.st_value, constant, (symbol.st_other & kManaged) != 0});
    }
    return true;
  }

  std::string_view bytes_;
  std::vector<Elf64_Shdr> sections_;
  Elf64_Shdr names_{};
  CubinFacts facts_;
};

struct Refusal {
  std::string_view name;  // or its beginning
  std::string_view reason;
};
constexpr std::array<Refusal, 9> kRefusals = {{
    {"vprintf", "device printf writes to the host's output"},
    {"__assertfail", "device assert writes to the host's output; use __trap()"},
    {"malloc", "the device heap keeps its contents between launches; use the workspace"},
    {"free", "the device heap keeps its contents between launches; use the workspace"},
    {"__nv_aligned_device_malloc", "the device heap keeps its contents between launches; use the workspace"},
    {"cudaLaunchDevice", "kernels launched from the device are not among those of the descriptor"},
    {"cudaGetParameterBuffer", "kernels launched from the device are not among those of the descriptor"},
    {"cudaGraph", "graphs launched from the device are not among the kernels of the descriptor"},
    {"__cnp", "kernels launched from the device are not among those of the descriptor"},
}};

std::string_view reason_against(std::string_view external) {
  for (const Refusal& refusal : kRefusals) {
    if (external.starts_with(refusal.name)) return refusal.reason;
  }
  return "a candidate holds all the code that it runs";
}

}  // namespace

std::uint64_t CubinFacts::variable_bytes() const {
  std::uint64_t sum = 0;
  for (const CubinVariable& variable : variables) {
    if (variable.bytes > UINT64_MAX - sum) return UINT64_MAX;
    sum += variable.bytes;
  }
  return sum;
}

Result<CubinFacts> read_cubin(std::string_view bytes) { return Elf(bytes).read(); }

Status check_cubin(std::string_view bytes) {
  if (bytes.size() > kLargestCubin) {
    return failure(
        fmt::format("the compiled code has {} bytes; at most {} MiB are accepted", bytes.size(), kLargestCubin >> 20));
  }
  const Result<CubinFacts> facts = read_cubin(bytes);
  if (!facts) return facts.error();
  if (!facts->externals.empty()) {
    const std::string& external = facts->externals.front();
    return failure(
        fmt::format("the code calls {}, which is not accepted: {}", printable(external, 80), reason_against(external)));
  }
  for (const CubinVariable& variable : facts->variables) {
    if (!variable.managed) continue;
    return failure(
        fmt::format("{} is a managed variable, which is not accepted: the host's memory is not the "
                    "candidate's; use __device__",
                    printable(variable.name, 80)));
  }
  if (facts->variables.size() > kMostVariables || facts->variable_bytes() > kLargestVariables) {
    return failure(fmt::format("{} device variables of {} bytes; at most {} of {} MiB together are accepted",
                               facts->variables.size(), facts->variable_bytes(), kMostVariables,
                               kLargestVariables >> 20));
  }
  return ok_status();
}

}  // namespace warpsmith
