// SPDX-License-Identifier: Apache-2.0
// A linker of one object: sections are laid out one after the other, calls to the outside go
// through stubs behind them.
#include "src/codegen/kernels/code/object_code.h"

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace tessera::codegen {
namespace {

/// Why an object isn't loaded.
struct LoadError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::uint64_t align(std::uint64_t at, std::uint64_t to) { return (at + to - 1) / to * to; }

/// An external function: `jmp *8(%rip)`, filled up, and its address.
struct Stub {
  std::uint8_t jump[8] = {0xff, 0x25, 2, 0, 0, 0, 0x0f, 0x0b};
  std::uint64_t address = 0;
};
static_assert(sizeof(Stub) == 16);

void* math_library(const char* name) {
  // Kept for the life of the process: code refers to it.
  return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

void* vector_math() {
  static void* const library = math_library("libmvec.so.1");
  return library;
}

std::uint64_t address_of(const char* name) {
  static void* const math = math_library("libm.so.6");
  static void* const c = math_library("libc.so.6");
  for (void* library : {vector_math(), math, c}) {
    if (library == nullptr) continue;
    if (void* found = dlsym(library, name)) return reinterpret_cast<std::uint64_t>(found);
  }
  throw LoadError(std::string("nothing is named ") + name);
}

class Linker {
 public:
  explicit Linker(const std::string& object) : object_(object) {}

  std::shared_ptr<const MachineCode> link(const char* entry) {
    read_headers();
    place_sections();
    place_stubs();
    void* memory =
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw LoadError("no memory for its code");
    base_ = static_cast<std::uint8_t*>(memory);
    // From here on the memory has an owner.
    std::shared_ptr<MachineCode> code;
    try {
      fill();
      void* at = base_ + offset_of(entry);
      if (mprotect(memory, bytes_, PROT_READ | PROT_EXEC) != 0) {
        throw LoadError("the system doesn't let memory be made executable");
      }
      code = std::make_shared<MachineCode>(memory, bytes_, at);
    } catch (...) {
      munmap(memory, bytes_);
      throw;
    }
    return code;
  }

 private:
  template <class T>
  const T* table(std::uint64_t offset, std::uint64_t count) const {
    if (offset % alignof(T) != 0 || offset > object_.size() ||
        count > (object_.size() - offset) / sizeof(T)) {
      throw LoadError("it is cut off");
    }
    return reinterpret_cast<const T*>(object_.data() + offset);
  }

  void read_headers() {
    const auto& h = *table<Elf64_Ehdr>(0, 1);
    if (std::memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 || h.e_ident[EI_CLASS] != ELFCLASS64 ||
        h.e_ident[EI_DATA] != ELFDATA2LSB || h.e_type != ET_REL || h.e_machine != EM_X86_64) {
      throw LoadError("it is no relocatable object for x86-64");
    }
    sections_ = table<Elf64_Shdr>(h.e_shoff, h.e_shnum);
    count_ = h.e_shnum;
    for (std::size_t n = 0; n < count_; ++n) {
      const Elf64_Shdr& s = sections_[n];
      if (s.sh_type != SHT_SYMTAB) continue;
      symbol_count_ = s.sh_size / sizeof(Elf64_Sym);
      symbols_ = table<Elf64_Sym>(s.sh_offset, symbol_count_);
      if (s.sh_link >= count_) throw LoadError("it is cut off");
      const Elf64_Shdr& names = sections_[s.sh_link];
      names_ = {table<char>(names.sh_offset, names.sh_size), std::size_t(names.sh_size)};
    }
  }

  /// Frames aren't unwound through kernels: they throw nothing (KernelDescriptor::may_throw).
  bool is_loaded(std::size_t section) const {
    const Elf64_Shdr& s = sections_[section];
    return (s.sh_flags & SHF_ALLOC) != 0 && s.sh_type == SHT_PROGBITS && s.sh_size != 0 &&
           !is_frames(section);
  }
  bool is_frames(std::size_t section) const {
    const auto& h = *table<Elf64_Ehdr>(0, 1);
    if (h.e_shstrndx >= count_) throw LoadError("it is cut off");
    const Elf64_Shdr& names = sections_[h.e_shstrndx];
    const char* all = table<char>(names.sh_offset, names.sh_size);
    const std::uint64_t at = sections_[section].sh_name;
    static const std::string kFrames = ".eh_frame";
    return at < names.sh_size &&
           std::string(all + at, std::min<std::uint64_t>(names.sh_size - at, kFrames.size())) ==
               kFrames;
  }

  void place_sections() {
    places_.assign(count_, -1);
    for (std::size_t n = 0; n < count_; ++n) {
      if (!is_loaded(n)) continue;
      const Elf64_Shdr& s = sections_[n];
      if ((s.sh_flags & (SHF_WRITE | SHF_TLS)) != 0) throw LoadError("it has variables");
      if (s.sh_addralign > 4096) throw LoadError("it is aligned to more than a page");
      table<char>(s.sh_offset, s.sh_size);
      bytes_ = align(bytes_, std::max<std::uint64_t>(s.sh_addralign, 1));
      places_[n] = std::int64_t(bytes_);
      bytes_ += s.sh_size;
    }
  }

  /// One stub for each symbol that a relocation names: for calls out, and as its GOT's entry.
  void place_stubs() {
    bytes_ = align(bytes_, sizeof(Stub));
    for_each_relocation([&](std::size_t, const Elf64_Rela& r) {
      const auto symbol = ELF64_R_SYM(r.r_info);
      if (stubs_.emplace(symbol, bytes_).second) bytes_ += sizeof(Stub);
    });
    bytes_ = std::max<std::uint64_t>(align(bytes_, std::uint64_t(sysconf(_SC_PAGESIZE))), 1);
  }

  template <class F>
  void for_each_relocation(F&& f) const {
    for (std::size_t n = 0; n < count_; ++n) {
      const Elf64_Shdr& s = sections_[n];
      if (s.sh_type == SHT_REL) throw LoadError("it has relocations without addends");
      if (s.sh_type != SHT_RELA || s.sh_info >= count_ || places_[s.sh_info] < 0) continue;
      const std::uint64_t count = s.sh_size / sizeof(Elf64_Rela);
      const auto* all = table<Elf64_Rela>(s.sh_offset, count);
      for (std::uint64_t k = 0; k < count; ++k) f(s.sh_info, all[k]);
    }
  }

  std::string name_of(const Elf64_Sym& s) const {
    if (s.st_name >= names_.size()) throw LoadError("it is cut off");
    const char* begin = names_.data() + s.st_name;
    return {begin, strnlen(begin, names_.size() - s.st_name)};
  }

  /// The address of a symbol of the object's own; 0 if it is of another.
  std::uint64_t own_address(const Elf64_Sym& s) const {
    if (s.st_shndx == SHN_UNDEF) return 0;
    if (s.st_shndx >= count_ || places_[s.st_shndx] < 0 ||
        s.st_value > sections_[s.st_shndx].sh_size) {
      throw LoadError("it refers to what isn't loaded");
    }
    return reinterpret_cast<std::uint64_t>(base_) + std::uint64_t(places_[s.st_shndx]) + s.st_value;
  }

  void fill() {
    for (std::size_t n = 0; n < count_; ++n) {
      if (places_[n] < 0) continue;
      std::memcpy(base_ + places_[n], object_.data() + sections_[n].sh_offset,
                  sections_[n].sh_size);
    }
    for (const auto& [symbol, at] : stubs_) {
      if (symbol >= symbol_count_) throw LoadError("it is cut off");
      const Elf64_Sym& s = symbols_[symbol];
      Stub stub;
      stub.address = own_address(s);
      if (stub.address == 0) stub.address = address_of(name_of(s).c_str());
      std::memcpy(base_ + at, &stub, sizeof stub);
    }
    for_each_relocation([&](std::size_t section, const Elf64_Rela& r) { relocate(section, r); });
  }

  void relocate(std::size_t section, const Elf64_Rela& r) {
    const auto symbol = ELF64_R_SYM(r.r_info);
    const auto type = ELF64_R_TYPE(r.r_info);
    const bool wide = type == R_X86_64_64 || type == R_X86_64_PC64;
    const std::uint64_t size = sections_[section].sh_size;
    if (r.r_offset > size || size - r.r_offset < (wide ? 8 : 4)) throw LoadError("it is cut off");
    std::uint8_t* const at = base_ + places_[section] + r.r_offset;
    const auto stub = reinterpret_cast<std::uint64_t>(base_ + stubs_.at(symbol));
    const std::uint64_t own = own_address(symbols_[symbol]);
    const std::uint64_t code = own != 0 ? own : stub;
    std::uint64_t target = code;
    switch (type) {
      case R_X86_64_64:
        target = own != 0 ? own : reinterpret_cast<const Stub*>(stub)->address;
        break;
      case R_X86_64_PC64:
      case R_X86_64_PC32:
      case R_X86_64_PLT32:
        break;
      case R_X86_64_GOTPCREL:
      case R_X86_64_GOTPCRELX:
      case R_X86_64_REX_GOTPCRELX:
        target = stub + offsetof(Stub, address);
        break;
      default:
        throw LoadError("it has relocations of type " + std::to_string(type));
    }
    target += std::uint64_t(r.r_addend);
    if (type != R_X86_64_64) target -= reinterpret_cast<std::uint64_t>(at);
    if (wide) {
      std::memcpy(at, &target, 8);
      return;
    }
    const auto near = std::int32_t(target);
    if (std::int64_t(target) != near) throw LoadError("it refers to what is too far away");
    std::memcpy(at, &near, 4);
  }

  std::uint64_t offset_of(const char* entry) const {
    for (std::size_t n = 0; n < symbol_count_; ++n) {
      const Elf64_Sym& s = symbols_[n];
      if (s.st_shndx != SHN_UNDEF && ELF64_ST_TYPE(s.st_info) == STT_FUNC && name_of(s) == entry) {
        return own_address(s) - reinterpret_cast<std::uint64_t>(base_);
      }
    }
    throw LoadError(std::string("it has no function ") + entry);
  }

  const std::string& object_;
  const Elf64_Shdr* sections_ = nullptr;
  std::size_t count_ = 0;
  const Elf64_Sym* symbols_ = nullptr;
  std::uint64_t symbol_count_ = 0;
  std::string_view names_;
  std::vector<std::int64_t> places_;              ///< of sections; -1: it isn't loaded
  std::map<std::uint64_t, std::uint64_t> stubs_;  ///< places by symbol
  std::uint64_t bytes_ = 0;
  std::uint8_t* base_ = nullptr;
};

}  // namespace

MachineCode::~MachineCode() { munmap(memory_, bytes_); }

std::shared_ptr<const MachineCode> load_object(const std::string& object, const char* entry,
                                               std::string* error) {
  try {
    return Linker(object).link(entry);
  } catch (const LoadError& e) {
    *error = e.what();
    return nullptr;
  }
}

bool has_vector_math() { return vector_math() != nullptr; }

}  // namespace tessera::codegen
