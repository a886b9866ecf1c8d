#include <chrono>
#include <iostream>
#include "src/ir/hlo/hlo_text.h"
#include "src/text/bytecode/bytecode.h"
#include "tests/text/programs.h"
namespace tessera::text {
TEST(BytecodeScratch, All) {
  const char* dir = std::getenv("BC_DIR");
  if (dir == nullptr) GTEST_SKIP();
  std::ifstream list(std::string(dir) + "/manifest.txt");
  std::string text_path, name;
  int same = 0, bad = 0, refused = 0;
  std::map<std::string, int> kinds;
  while (list >> text_path >> name) {
    const std::string text = read_file(text_path), bytes = read_file(std::string(dir) + "/" + name);
    std::unique_ptr<ir::Module> a;
    try { a = parse_stablehlo(text, text_path); } catch (const Error& e) { ++refused;
      try { parse_bytecode(bytes, name); std::cout << "ONLY TEXT REFUSED " << name << " " << std::string(e.what()).substr(0,200) << "\n"; } catch (const Error& f) { 
        if (std::getenv("BC_SHOW")) std::cout << "--- " << name << "\n" << e.what() << "\n" << f.what() << "\n"; }
      continue; }
    try {
      auto b = parse_bytecode(bytes, name);
      ir::PrintOptions o; o.canonical = true; o.axis_names = true;
      const bool locs = text.find("loc(") != std::string::npos;
      std::string x = ir::to_string(*a, o), y = ir::to_string(*b, o);
      if (locs && x == y) { ir::PrintOptions p; p.axis_names = true; x = ir::to_string(*a, p); y = ir::to_string(*b, p); }
      if (x == y) { ++same; continue; }
      ++bad;
      std::size_t i = 0; while (i < x.size() && i < y.size() && x[i] == y[i]) ++i;
      if (bad < 60) std::cout << "DIFF " << name << "\n  " << x.substr(i > 60 ? i - 60 : 0, 200) << "\n  " << y.substr(i > 60 ? i - 60 : 0, 200) << "\n";
    } catch (const std::exception& e) { ++bad; if (kinds[std::string(e.what()).substr(0, 60)]++ < 2) std::cout << "FAIL " << name << " " << std::string(e.what()).substr(0, 400) << "\n"; }
  }
  std::cout << "same " << same << " bad " << bad << " text refused " << refused << "\n";
}
TEST(BytecodeScratch, Speed) {
  const char* file = std::getenv("BC_FILE");
  if (file == nullptr) GTEST_SKIP();
  const std::string bytes = read_file(file);
  double best = 1e9;
  for (int i = 0; i < 30; ++i) {
    auto t = std::chrono::steady_clock::now();
    if (is_bytecode(bytes)) parse_bytecode(bytes, "x"); else parse_stablehlo(bytes, "x");
    best = std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - t).count());
  }
  std::cout << file << " " << bytes.size() << " bytes " << best << " ms " << bytes.size() / best / 1e3 << " MB/s\n";
}
}
