// SPDX-License-Identifier: Apache-2.0
// Mutations of text by words and lines, besides libFuzzer's own of bytes, most of which break the
// syntax. Included once in a target.
#pragma once

#include <algorithm>
#include <cctype>
#include <random>

#include "tests/fuzz/fuzz.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace tessera::fuzz {

struct Piece {
  std::size_t begin = 0, end = 0;
};

/// Words (names, numbers with their sign) or, at `lines`, lines with their ends.
inline std::vector<Piece> pieces(const std::string& text, bool lines) {
  const auto in_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-';
  };
  std::vector<Piece> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    if (lines) {
      at = std::min(text.find('\n', at), text.size() - 1) + 1;
      out.push_back({begin, at});
    } else if (in_word(text[at])) {
      while (at < text.size() && in_word(text[at])) ++at;
      out.push_back({begin, at});
    } else {
      ++at;
    }
  }
  return out;
}

inline bool is_number(std::string_view word) {
  if (!word.empty() && word[0] == '-') word.remove_prefix(1);
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0;
  });
}

inline std::string mutated(std::string text, std::mt19937& random) {
  const auto below = [&](std::size_t n) { return std::size_t(random()) % n; };
  const bool lines = below(4) == 0;
  const std::vector<Piece> all = pieces(text, lines);
  if (all.empty()) return text;
  const Piece a = all[below(all.size())], b = all[below(all.size())];
  const std::string other = text.substr(b.begin, b.end - b.begin);
  if (lines) {
    switch (below(3)) {
      case 0:
        return text.erase(a.begin, a.end - a.begin);
      case 1:
        return text.insert(a.begin, other);
      default:
        return text.replace(a.begin, a.end - a.begin, other);
    }
  }
  const std::string own = text.substr(a.begin, a.end - a.begin);
  if (is_number(own)) {
    static const char* const kNumbers[] = {
        "0",  "1",  "2",   "3",   "4",    "5",          "6",          "7",
        "8",  "16", "-1",  "-2",  "255",  "256",        "1000",       "65536",
        "-8", "12", "100", "127", "4096", "2147483647", "2147483648", "9223372036854775807"};
    std::string number = kNumbers[below(std::size(kNumbers))];
    if (below(3) == 0) {
      // The same number everywhere: sizes that must agree go on agreeing.
      std::string out;
      std::size_t done = 0;
      for (const Piece& p : all) {
        if (text.compare(p.begin, p.end - p.begin, own) != 0) continue;
        out.append(text, done, p.begin - done).append(number);
        done = p.end;
      }
      return out.append(text, done, std::string::npos);
    }
    return text.replace(a.begin, a.end - a.begin, number);
  }
  // A word for another, of the same kind of beginning if one is near.
  return text.replace(a.begin, a.end - a.begin, other);
}

}  // namespace tessera::fuzz

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  std::mt19937 random(seed);
  if (size == 0 || random() % 3 == 0) return LLVMFuzzerMutate(data, size, most);
  std::string text(reinterpret_cast<const char*>(data), size);
  for (unsigned n = 1 + unsigned(random()) % 4; n > 0; --n) {
    text = tessera::fuzz::mutated(std::move(text), random);
  }
  if (text.size() > most) text.resize(most);
  std::copy(text.begin(), text.end(), data);
  return text.size();
}
