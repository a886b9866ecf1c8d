// SPDX-License-Identifier: Apache-2.0
// The source rules of scripts/check_includes, on sources that break them.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>

#include "tests/tools/command_runner.h"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;

/// What the script says of a repository of this one file: a licence line and `text`.
Ran check_text(const std::string& path, const std::string& text) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / path;
  fs::create_directories(file.parent_path());
  write_file(file.string(), "// SPDX-License-Identifier: Apache-2.0\n" + text);
  const std::string command = "'" + (source_dir() / "scripts/check_includes").string() + "' '" +
                              folder.path().string() + "'";
  Ran ran;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return ran;
  char buffer[4096];
  while (const std::size_t n = std::fread(buffer, 1, sizeof buffer, pipe))
    ran.out.append(buffer, n);
  const int status = ::pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
}

/// The same with a line that says what the file is.
Ran check_rules(const std::string& path, const std::string& body) {
  return check_text(path, "// What f does.\n" + body);
}

std::string tries(const std::string& handlers) {
  return "void f() {\n  try {\n    g();\n" + handlers + "  }\n}\n";
}

TEST(SourceRules, TheSecondLineDescribesTheFile) {
  for (const char* text : {"void f();\n", "", "\n// What f does.\n", "//\nvoid f();\n",
                           "// Compiled apart: f stands elsewhere, too.\n// What f does.\n"}) {
    for (const char* path : {"src/ir/f.cc", "src/ir/f.h", "tools/f.cc", "tests/ir/f_test.cc"}) {
      const std::string once = std::string(path).back() == 'h' ? "#pragma once\n" : "";
      const Ran ran = check_text(path, text + once);
      EXPECT_EQ(ran.code, 1) << text;
      EXPECT_NE(ran.out.find("says what the file is"), std::string::npos) << ran.out;
    }
  }
  EXPECT_EQ(check_rules("src/ir/f.cc", "void f();\n").code, 0);
}

TEST(SourceRules, HandlersOfAllErrorsDontSwallowInternalErrors) {
  for (const char* caught : {"const Error&", "const Error& e", "const tessera::Error&",
                             "const std::exception&", "const std::runtime_error& e", "..."}) {
    const std::string handler = "  } catch (" + std::string(caught) + ") {\n    h();\n";
    for (const char* path : {"src/ir/f.cc", "tools/f.cc"}) {
      const Ran swallows = check_rules(path, tries(handler));
      EXPECT_EQ(swallows.code, 1) << caught << swallows.out;
      EXPECT_NE(swallows.out.find(std::string(path) + ":6: "), std::string::npos) << swallows.out;
    }
    EXPECT_EQ(check_rules("src/ir/f.cc",
                          tries("  } catch (const InternalError&) {\n    throw;\n" + handler))
                  .code,
              0)
        << caught;
    EXPECT_EQ(
        check_rules("src/ir/f.cc", tries("  } catch (" + std::string(caught) + ") {\n    throw;\n"))
            .code,
        0)
        << caught;
    // Each try has handlers of its own.
    EXPECT_EQ(check_rules("src/ir/f.cc",
                          tries("  } catch (const InternalError&) {\n    throw;\n  }\n  try {\n"
                                "    g();\n" +
                                handler))
                  .code,
              1)
        << caught;
  }
  EXPECT_EQ(check_rules("src/ir/f.cc", tries("  } catch (const ValueError&) {\n    h();\n")).code,
            0);
  EXPECT_EQ(
      check_rules("src/ir/f.cc", tries("  } catch (...) {\n    e = std::current_exception();\n"))
          .code,
      0);
}

TEST(SourceRules, InternalErrorsAreRethrown) {
  const std::string swallowed = tries("  } catch (const InternalError&) {\n    h();\n");
  EXPECT_EQ(check_rules("src/ir/f.cc", swallowed).code, 1);
  // The command reports it and ends.
  EXPECT_EQ(check_rules("tools/f.cc", swallowed).code, 0);
}

TEST(SourceRules, FoldersOfALayerHaveNoCycles) {
  const auto code = [](const std::string& path, const std::string& target) {
    return check_rules(path, "#include \"" + target + "\"\n").code;
  };
  EXPECT_EQ(code("src/spmd/propagation/f.cc", "src/spmd/manual/manual.h"), 0);
  EXPECT_EQ(code("src/spmd/manual/f.cc", "src/spmd/propagation/graph.h"), 1);
  EXPECT_EQ(code("src/spmd/partitioner/f.cc", "src/spmd/collectives/optimize.h"), 1);
  EXPECT_EQ(code("src/spmd/partitioner/f.cc", "src/spmd/partitioner/context.h"), 0);
  EXPECT_EQ(code("src/spmd/f.cc", "src/spmd/rules/rules.h"), 1);
  EXPECT_EQ(code("src/codegen/kernels/f.cc", "src/codegen/emit/emitter.h"), 1);
  EXPECT_EQ(code("src/codegen/f.cc", "src/codegen/kernels/products/dot.h"), 0);
  // Folders deeper down are the nearest named one's; a new one must be named.
  EXPECT_EQ(code("src/spmd/partitioner/deep/f.cc", "src/spmd/collectives/optimize.h"), 1);
  EXPECT_EQ(code("src/spmd/partitioner/deep/f.cc", "src/spmd/partitioner/context.h"), 0);
  EXPECT_EQ(code("src/spmd/unheard_of/f.cc", "src/ir/module.h"), 1);
}

TEST(SourceRules, NumbersDontDependOnTheLocale) {
  const auto code = [](const std::string& body) { return check_rules("src/ir/f.cc", body).code; };
  EXPECT_EQ(code("double f(const char* s) { return std::strtod(s, nullptr); }\n"), 1);
  EXPECT_EQ(code("double f(const std::string& s) { return std::stod(s); }\n"), 1);
  EXPECT_EQ(code("void f(double v) { std::snprintf(b, sizeof b, \"%.17g\", v); }\n"), 1);
  EXPECT_EQ(code("double f(const char* s) { return read_double(s, nullptr); }\n"), 0);
  EXPECT_EQ(code("void f(long v) { std::snprintf(b, sizeof b, \"%016llx\", v); }\n"), 0);
}

TEST(SourceRules, MemoryOfDevicesIsOpaqueAboveTheCompiler) {
  const auto code = [](const std::string& path, const std::string& target) {
    return check_rules(path, "#include \"" + target + "\"\n").code;
  };
  for (const char* above : {"src/frontend/f.cc", "tools/tessera/f.cc"}) {
    EXPECT_EQ(code(above, "src/runtime/buffer.h"), 1) << above;
    EXPECT_EQ(code(above, "src/compiler/engine.h"), 0) << above;
  }
  // Engines see what the compiler declares, and text.
  EXPECT_EQ(code("src/engines/remote/f.cc", "src/compiler/engine.h"), 0);
  EXPECT_EQ(code("src/engines/remote/f.cc", "src/text/read/stablehlo.h"), 0);
  EXPECT_EQ(code("src/engines/remote/f.cc", "src/compiler/pipeline.h"), 1);
  EXPECT_EQ(code("src/compiler/f.cc", "src/engines/remote/engine.h"), 1);
}

}  // namespace
}  // namespace tessera::testing
