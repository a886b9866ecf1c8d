// SPDX-License-Identifier: Apache-2.0
// Reads the notes of an ELF file, and asks the processor.
#include "src/codegen/kernels/code/code_identity.h"

#include <elf.h>
#include <xxhash.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tessera::codegen {
namespace {

/// More headers or notes than any library has.
constexpr std::size_t kMaxHeaders = 1024, kMaxNotes = std::size_t(1) << 16;

template <class T>
bool read(std::ifstream& in, std::uint64_t at, T* to, std::size_t count) {
  in.clear();
  in.seekg(std::streamoff(at));
  in.read(reinterpret_cast<char*>(to), std::streamsize(count * sizeof(T)));
  return bool(in);
}

std::string hex(const std::string& bytes) {
  std::string out;
  char two[3];
  for (const char c : bytes) {
    std::snprintf(two, sizeof two, "%02x", unsigned(static_cast<unsigned char>(c)));
    out += two;
  }
  return out;
}

/// The build id among a segment's notes; empty if there is none.
std::string id_in(const std::vector<char>& notes) {
  std::size_t at = 0;
  const auto padded = [](std::size_t n) { return (n + 3) / 4 * 4; };
  Elf64_Nhdr note;
  while (notes.size() - at >= sizeof note) {
    std::memcpy(&note, notes.data() + at, sizeof note);
    at += sizeof note;
    const std::size_t left = notes.size() - at;
    if (note.n_namesz > left || note.n_descsz > left ||
        padded(note.n_namesz) + padded(note.n_descsz) > left) {
      break;
    }
    const std::string name(notes.data() + at, note.n_namesz);
    const std::size_t value = at + padded(note.n_namesz);
    if (note.n_type == NT_GNU_BUILD_ID && name == std::string("GNU\0", 4)) {
      return hex({notes.data() + value, note.n_descsz});
    }
    at = value + padded(note.n_descsz);
  }
  return {};
}

}  // namespace

std::optional<std::string> build_id(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  Elf64_Ehdr header;
  if (!in || !read(in, 0, &header, 1) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return std::nullopt;
  }
  std::vector<Elf64_Phdr> segments(std::min<std::size_t>(header.e_phnum, kMaxHeaders));
  if (read(in, header.e_phoff, segments.data(), segments.size())) {
    for (const Elf64_Phdr& s : segments) {
      if (s.p_type != PT_NOTE || s.p_filesz > kMaxNotes) continue;
      std::vector<char> notes(s.p_filesz);
      if (!read(in, s.p_offset, notes.data(), notes.size())) continue;
      if (std::string id = id_in(notes); !id.empty()) return id;
    }
  }
  in.clear();
  in.seekg(0);
  const std::string all{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  return std::to_string(XXH3_64bits(all.data(), all.size()));
}

std::string machine_identity() {
#if defined(__x86_64__)
  std::string out;
  char text[64];
  // The family and model, the features, and the extended ones.
  constexpr unsigned kLeaves[][2] = {{1, 0}, {7, 0}, {7, 1}, {0x80000001, 0}};
  for (const auto& leaf : kLeaves) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    __get_cpuid_count(leaf[0], leaf[1], &a, &b, &c, &d);
    if (leaf[0] == 1) b = 0;  // which core this is
    std::snprintf(text, sizeof text, "%08x%08x%08x%08x.", a, b, c, d);
    out += text;
  }
  // The registers that the system saves.
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_OSXSAVE) != 0) {
    std::uint32_t low = 0, high = 0;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    std::snprintf(text, sizeof text, "%08x", low);
    out += text;
  }
  return out;
#else
  return "unknown";
#endif
}

std::string machine_name() {
#if defined(__x86_64__)
  std::string out;
  for (unsigned leaf = 0x80000002; leaf <= 0x80000004; ++leaf) {
    unsigned registers[4] = {};
    if (__get_cpuid(leaf, &registers[0], &registers[1], &registers[2], &registers[3]) == 0) break;
    out.append(reinterpret_cast<const char*>(registers), sizeof registers);
  }
  out.resize(std::strlen(out.c_str()));
  while (!out.empty() && out.back() == ' ') out.pop_back();
  if (!out.empty()) return out;
#endif
  return "of unknown name";
}

int machine_level() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return 1;
  const unsigned features = c;
  const auto has_all = [](unsigned in, unsigned bits) { return (in & bits) == bits; };
  // SSE3, SSSE3, CMPXCHG16B, SSE4.1, SSE4.2, POPCNT
  if (!has_all(features, 1U | 1U << 9 | 1U << 13 | 1U << 19 | 1U << 20 | 1U << 23)) return 1;
  // FMA, MOVBE, OSXSAVE, AVX, F16C
  if (!has_all(features, 1U << 12 | 1U << 22 | 1U << 27 | 1U << 28 | 1U << 29)) return 2;
  std::uint32_t saved = 0, high = 0;
  __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
  if (!has_all(saved, 6) || __get_cpuid(0x80000001, &a, &b, &c, &d) == 0) return 2;
  if (!has_all(c, 1U << 5)) return 2;  // LZCNT
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return 2;
  if (!has_all(b, 1U << 3 | 1U << 5 | 1U << 8)) return 2;  // BMI1, AVX2, BMI2
  // AVX-512 F, DQ, CD, BW, VL, and the registers
  const bool wide = has_all(b, 1U << 16 | 1U << 17 | 1U << 28 | 1U << 30 | 1U << 31);
  return wide && has_all(saved, 0xe6) ? 4 : 3;
#else
  return 0;
#endif
}

}  // namespace tessera::codegen
