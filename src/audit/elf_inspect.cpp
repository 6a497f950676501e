// The dynamic section through the program headers, which the loader uses too; section headers may be stripped or lie.
#include "audit/elf_inspect.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/file.h"

namespace warpsmith::audit {

namespace {

constexpr std::size_t kMostSymbols = 1 << 20;
constexpr std::size_t kMostNeeded = 4096;
#if defined(__aarch64__)
constexpr int kMachine = EM_AARCH64;
#else
constexpr int kMachine = EM_X86_64;
#endif

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  Result<ElfFacts> read() {
    const auto header = at<Elf64_Ehdr>(0);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return bad("not an ELF file");
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
        header->e_machine != kMachine) {
      return bad("not a 64-bit object of this machine");
    }
    if (header->e_type != ET_DYN) return bad("not a shared object");
    for (int i = 0; i < header->e_phnum; ++i) {
      const auto segment = at<Elf64_Phdr>(header->e_phoff + static_cast<std::uint64_t>(i) * sizeof(Elf64_Phdr));
      if (!segment) return bad("program headers outside the file");
      if (segment->p_type == PT_LOAD) loads_.push_back(*segment);
      if (segment->p_type == PT_DYNAMIC) dynamic_ = *segment;
    }
    if (!dynamic_) return bad("no dynamic section");
    return read_dynamic();
  }

 private:
  static Error bad(const std::string& what) { return bad_input(what); }

  template <class T>
  std::optional<T> at(std::uint64_t offset) const {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return value;
  }

  // File offset of a virtual address.
  std::optional<std::uint64_t> offset_of(std::uint64_t address) const {
    for (const Elf64_Phdr& load : loads_) {
      if (address >= load.p_vaddr && address - load.p_vaddr < load.p_filesz)
        return load.p_offset + address - load.p_vaddr;
    }
    return std::nullopt;
  }

  std::optional<std::string> text(std::uint64_t index) const {
    if (index >= names_bytes_) return std::nullopt;
    const std::uint64_t begin = names_ + index;
    if (begin >= bytes_.size()) return std::nullopt;
    const std::string_view rest = bytes_.substr(begin, names_bytes_ - index);
    const std::size_t end = rest.find('\0');
    if (end == std::string_view::npos) return std::nullopt;
    return std::string(rest.substr(0, end));
  }

  Result<ElfFacts> read_dynamic() {
    std::vector<std::uint64_t> needed;
    std::optional<std::uint64_t> names, symbols, hash, gnu_hash;
    for (std::uint64_t at_byte = 0; at_byte + sizeof(Elf64_Dyn) <= dynamic_->p_filesz; at_byte += sizeof(Elf64_Dyn)) {
      const auto entry = at<Elf64_Dyn>(dynamic_->p_offset + at_byte);
      if (!entry) return bad("its dynamic section lies outside the file");
      if (entry->d_tag == DT_NULL) break;
      if (entry->d_tag == DT_NEEDED && needed.size() < kMostNeeded) needed.push_back(entry->d_un.d_val);
      if (entry->d_tag == DT_STRTAB) names = offset_of(entry->d_un.d_ptr);
      if (entry->d_tag == DT_STRSZ) names_bytes_ = entry->d_un.d_val;
      if (entry->d_tag == DT_SYMTAB) symbols = offset_of(entry->d_un.d_ptr);
      if (entry->d_tag == DT_HASH) hash = offset_of(entry->d_un.d_ptr);
      if (entry->d_tag == DT_GNU_HASH) gnu_hash = offset_of(entry->d_un.d_ptr);
    }
    if (!names || !symbols) return bad("its symbol tables lie outside the file");
    names_ = *names;
    ElfFacts facts;
    for (const std::uint64_t index : needed) {
      const auto name = text(index);
      if (!name) return bad("a library's name lies outside the file");
      facts.needed.push_back(*name);
    }
    const auto count = hash ? count_by_hash(*hash) : gnu_hash ? count_by_gnu_hash(*gnu_hash, *symbols) : std::nullopt;
    if (!count) return bad("its symbol count cannot be told");
    if (!read_symbols(*symbols, *count, facts)) return bad("a symbol lies outside the file");
    return facts;
  }

  std::optional<std::uint64_t> count_by_hash(std::uint64_t table) const {
    const auto chains = at<std::uint32_t>(table + 4);
    return chains ? std::optional<std::uint64_t>(*chains) : std::nullopt;
  }

  // The GNU table hashes defined symbols alone: the last chain's end is the count, if there is any chain.
  std::optional<std::uint64_t> count_by_gnu_hash(std::uint64_t table, std::uint64_t) const {
    const auto buckets = at<std::uint32_t>(table), first = at<std::uint32_t>(table + 4),
               bloom_words = at<std::uint32_t>(table + 8);
    if (!buckets || !first || !bloom_words || *buckets > kMostSymbols || *bloom_words > kMostSymbols)
      return std::nullopt;
    const std::uint64_t bucket_table = table + 16 + 8ULL * *bloom_words;
    const std::uint64_t chain_table = bucket_table + 4ULL * *buckets;
    std::uint64_t last = 0;
    for (std::uint64_t i = 0; i < *buckets; ++i) {
      const auto symbol = at<std::uint32_t>(bucket_table + 4 * i);
      if (!symbol) return std::nullopt;
      last = std::max<std::uint64_t>(last, *symbol);
    }
    if (last < *first) return *first;
    for (std::uint64_t steps = 0; steps < kMostSymbols; ++steps, ++last) {
      const auto link = at<std::uint32_t>(chain_table + 4 * (last - *first));
      if (!link) return std::nullopt;
      if ((*link & 1) != 0) return last + 1;
    }
    return std::nullopt;
  }

  bool read_symbols(std::uint64_t table, std::uint64_t count, ElfFacts& facts) const {
    if (count > kMostSymbols) return false;
    for (std::uint64_t i = 1; i < count; ++i) {
      const auto symbol = at<Elf64_Sym>(table + i * sizeof(Elf64_Sym));
      if (!symbol) return false;
      const auto name = text(symbol->st_name);
      if (!name) return false;
      if (name->empty() || ELF64_ST_BIND(symbol->st_info) == STB_LOCAL) continue;
      (symbol->st_shndx == SHN_UNDEF ? facts.undefined : facts.defined).push_back(*name);
    }
    std::sort(facts.undefined.begin(), facts.undefined.end());
    std::sort(facts.defined.begin(), facts.defined.end());
    return true;
  }

  std::string_view bytes_;
  std::vector<Elf64_Phdr> loads_;
  std::optional<Elf64_Phdr> dynamic_;
  std::uint64_t names_ = 0, names_bytes_ = 0;
};

}  // namespace

bool ElfFacts::needs(std::string_view library_prefix) const {
  return std::any_of(needed.begin(), needed.end(), [&](const auto& name) { return name.starts_with(library_prefix); });
}

bool ElfFacts::takes(std::string_view symbol) const {
  return std::binary_search(undefined.begin(), undefined.end(), symbol);
}

bool ElfFacts::gives(std::string_view symbol) const {
  return std::binary_search(defined.begin(), defined.end(), symbol);
}

Result<ElfFacts> inspect_elf(std::string_view bytes) { return Reader(bytes).read(); }

Result<ElfFacts> inspect_elf_file(const std::filesystem::path& path) {
  const auto bytes = read_file(path);
  if (!bytes) return bytes.error();
  auto facts = inspect_elf(*bytes);
  if (!facts) return bad_input(fmt::format("{}: {}", path.string(), facts.error().message));
  return facts;
}

}  // namespace warpsmith::audit
