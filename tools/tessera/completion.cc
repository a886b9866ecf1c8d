// SPDX-License-Identifier: Apache-2.0
// tessera completion: a script by which a shell completes subcommands, options and their values.
#include <algorithm>
#include <iostream>
#include <set>
#include <sstream>
#include <vector>

#include "tools/tessera/command.h"

namespace tessera::tool {
namespace {

struct OptionWords {
  std::vector<std::string> names;   ///< with their dashes
  std::vector<std::string> values;  ///< those that it may have, if they are listed
  std::string description;
  bool takes_value = false;
};

struct CommandWords {
  std::string name, description;
  std::vector<OptionWords> options;
  std::vector<std::string> values;  ///< of the positional argument, if they are listed
};

/// "TEXT:{a,b}" lists values: {a, b}.
std::vector<std::string> listed(const std::string& type) {
  const auto open = type.find('{'), close = type.find('}');
  std::vector<std::string> out;
  if (open == std::string::npos || close == std::string::npos) return out;
  std::istringstream list(type.substr(open + 1, close - open - 1));
  for (std::string word; std::getline(list, word, ',');) out.push_back(word);
  return out;
}

CommandWords words_of(const CLI::App& command) {
  CommandWords out{command.get_name(), command.get_description(), {}, {}};
  for (const CLI::Option* option : command.get_options()) {
    OptionWords words;
    for (const std::string& n : option->get_snames()) words.names.push_back("-" + n);
    for (const std::string& n : option->get_lnames()) words.names.push_back("--" + n);
    words.values = listed(option->get_type_name());
    words.description = option->get_description();
    words.takes_value = option->get_items_expected_max() > 0;
    if (words.names.empty()) {
      out.values.insert(out.values.end(), words.values.begin(), words.values.end());
    } else {
      out.options.push_back(std::move(words));
    }
  }
  return out;
}

std::string joined(const std::vector<std::string>& words, const char* between = " ") {
  std::string out;
  for (const std::string& w : words) out += (out.empty() ? "" : between) + w;
  return out;
}

/// Within single quotes of a POSIX shell.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

void write_bash(const std::vector<CommandWords>& commands, std::ostream& out) {
  std::vector<std::string> names;
  for (const CommandWords& c : commands) names.push_back(c.name);
  out << "# bash completion of tessera\n"
         "_tessera() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words=\n"
         "  COMPREPLY=()\n"
         "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
         "    COMPREPLY=($(compgen -W '"
      << joined(names)
      << " --help --version' -- \"$word\"))\n"
         "    return\n"
         "  fi\n"
         "  case ${COMP_WORDS[1]} in\n";
  for (const CommandWords& c : commands) {
    std::vector<std::string> flags;
    out << "    " << c.name << ")\n      case $before in\n";
    for (const OptionWords& o : c.options) {
      flags.insert(flags.end(), o.names.begin(), o.names.end());
      if (!o.values.empty()) {
        out << "        " << joined(o.names, "|") << ") COMPREPLY=($(compgen -W '"
            << joined(o.values) << "' -- \"$word\")); return ;;\n";
      }
    }
    out << "      esac\n      words='" << joined(flags) << "' values='" << joined(c.values)
        << "' ;;\n";
  }
  out << "  esac\n"
         "  case $word in\n"
         "    -*) COMPREPLY=($(compgen -W \"$words\" -- \"$word\")) ;;\n"
         "    *) COMPREPLY=($(compgen -W \"$values\" -- \"$word\") $(compgen -f -- \"$word\")) ;;\n"
         "  esac\n"
         "}\n"
         "complete -o filenames -F _tessera tessera\n";
}

void write_zsh(const std::vector<CommandWords>& commands, std::ostream& out) {
  // Brackets and colons end the parts of a specification of _arguments.
  const auto escaped = [](std::string text) {
    for (std::size_t at = 0; (at = text.find_first_of("[]:\\", at)) != std::string::npos; at += 2) {
      text.insert(at, "\\");
    }
    return text;
  };
  out << "#compdef tessera\n_tessera() {\n  local -a commands=(\n";
  for (const CommandWords& c : commands) {
    out << "    " << quoted(escaped(c.name) + ":" + c.description) << "\n";
  }
  out << "  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    return\n  fi\n"
         "  case $words[2] in\n";
  for (const CommandWords& c : commands) {
    out << "    " << c.name << ") _arguments";
    for (const OptionWords& o : c.options) {
      for (const std::string& name : o.names) {
        std::string spec = name + "[" + escaped(o.description) + "]";
        if (!o.values.empty()) {
          spec += ":value:(" + joined(o.values) + ")";
        } else if (o.takes_value) {
          spec += ":value:_files";
        }
        out << " \\\n      " << quoted(spec);
      }
    }
    out << " \\\n      "
        << quoted(c.values.empty() ? "*:file:_files" : "*:value:(" + joined(c.values) + ")")
        << " ;;\n";
  }
  out << "  esac\n}\n"
         "if [ \"$funcstack[1]\" = _tessera ]; then _tessera \"$@\"; else compdef _tessera "
         "tessera; "
         "fi\n";
}

void write_fish(const std::vector<CommandWords>& commands, std::ostream& out) {
  // In fish a backslash may stand before a quote or a backslash within single quotes.
  const auto fish_quoted = [](const std::string& text) {
    std::string inside;
    for (const char c : text)
      inside += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    return "'" + inside + "'";
  };
  for (const CommandWords& c : commands) {
    out << "complete -c tessera -n __fish_use_subcommand -a " << c.name << " -d "
        << fish_quoted(c.description) << "\n";
    const std::string here = "complete -c tessera -n '__fish_seen_subcommand_from " + c.name + "'";
    for (const OptionWords& o : c.options) {
      out << here;
      for (const std::string& n : o.names) {
        out << (n.starts_with("--") ? " -l " + n.substr(2) : " -s " + n.substr(1));
      }
      if (!o.values.empty()) {
        out << " -x -a " << fish_quoted(joined(o.values));
      } else if (o.takes_value) {
        out << " -r";
      }
      out << " -d " << fish_quoted(o.description) << "\n";
    }
    if (!c.values.empty()) out << here << " -f -a " << fish_quoted(joined(c.values)) << "\n";
  }
}

}  // namespace

void add_completion(CLI::App& app, std::function<int()>& run) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "completion", "Print a script by which a shell completes this command's words");
  command->add_option("shell", *shell, "The shell that is to read it")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->callback([&run, &app, shell] {
    run = [&app, shell] {
      std::vector<CommandWords> commands;
      for (const CLI::App* c : app.get_subcommands([](const CLI::App*) { return true; })) {
        commands.push_back(words_of(*c));
      }
      if (*shell == "bash") write_bash(commands, std::cout);
      if (*shell == "zsh") write_zsh(commands, std::cout);
      if (*shell == "fish") write_fish(commands, std::cout);
      return kDone;
    };
  });
}

}  // namespace tessera::tool
