#include "app/tools/chat.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <optional>

#include "app/tools/conversation.h"
#include "app/tools/line_reader.h"
#include "app/tools/terminal.h"

namespace weir::app {
namespace {

constexpr const char* kHelp =
    "/help            this\n"
    "/reset           forget what was said\n"
    "/model [NAME]    list the models, or talk to another one\n"
    "/system [TEXT]   another system message, or none; forgets what was said\n"
    "/quit            leave (also Ctrl-D)\n"
    "Ctrl-C stops an answer, and leaves where none is coming. Lines between two lines of \"\"\" are one message.\n";

// Ctrl-C stops the answer that is coming; without one, or again, it leaves.
std::atomic<bool> leaving{false};
std::atomic<net::Interrupt*> answering{nullptr};

void on_interrupt(int) {
  if (auto* answer = answering.exchange(nullptr))
    answer->raise();
  else
    leaving = true;
}

class Chat {
 public:
  enum class Input : uint8_t { kPerson, kPipe };
  Chat(const Remote& remote, Conversation& conversation, Input input)
      : remote_(remote), conversation_(conversation), input_(input) {}

  Exit run() {
    LineReader lines(STDIN_FILENO);
    for (;;) {
      prompt(quoting_ ? "... " : "> ");
      auto line = lines.next(leaving);
      if (!line || *line == "/quit" || *line == "/exit" || *line == "/bye") break;
      if (auto message = message_of(std::move(*line)); message && !send(*message)) return Exit::kFailed;
      if (leaving) break;
    }
    prompt("\n");
    return Exit::kOk;
  }

 private:
  bool is_person() const { return input_ == Input::kPerson; }
  void prompt(const char* text) const {
    if (is_person()) std::fputs(text, stderr);
  }

  // The message that is whole now, if any. Runs commands.
  std::optional<std::string> message_of(std::string line) {
    constexpr std::string_view kQuote = "\"\"\"";
    if (line == kQuote) {
      quoting_ = !quoting_;
      if (quoting_) return std::nullopt;
      return std::exchange(quoted_, {});
    }
    if (quoting_) {
      quoted_ += line + '\n';
      return std::nullopt;
    }
    if (line.starts_with('/')) {
      command(line);
      return std::nullopt;
    }
    if (line.find_first_not_of(" \t") == line.npos) return std::nullopt;
    return line;
  }

  void command(const std::string& line) {
    const size_t blank = line.find(' ');
    const std::string name = line.substr(0, blank), rest = blank == line.npos ? "" : line.substr(blank + 1);
    if (name == "/help")
      std::fputs(kHelp, stderr);
    else if (name == "/reset")
      conversation_.reset();
    else if (name == "/system")
      conversation_.use_system(rest);
    else if (name == "/model" && !rest.empty())
      conversation_.use_model(rest);
    else if (name == "/model")
      list();
    else
      std::fprintf(stderr, "no such command: %s; /help lists them\n", printable(name).c_str());
  }

  void list() {
    auto names = chat_models(remote_);
    if (!names) return void(fail(names.error().text));
    for (const auto& name : *names)
      std::fprintf(stderr, "%s %s\n", name == conversation_.model() ? "*" : " ", printable(name).c_str());
  }

  // False: it went wrong, and nobody is there to try again.
  bool send(const std::string& text) {
    net::Interrupt interrupt;
    if (is_person()) answering = &interrupt;
    const base::Status status = conversation_.send(text, &interrupt, [this](auto part, const auto& piece) {
      if (part == Conversation::Part::kAnswer)
        std::fputs(for_terminal(piece).c_str(), stdout);
      else if (is_person())
        std::fprintf(stderr, "\x1b[2m%s\x1b[0m", for_terminal(piece).c_str());
      std::fflush(stdout);
    });
    answering = nullptr;
    if (status.ok() || status.code == base::Code::kCancelled) std::fputs("\n", stdout);
    std::fflush(stdout);
    if (status.code == base::Code::kCancelled) {
      prompt("(stopped)\n");
      return true;
    }
    if (!status.ok()) {
      fail(status.text);
      return is_person();
    }
    if (is_person()) std::fprintf(stderr, "(%s)\n", conversation_.pace().c_str());
    return true;
  }

  const Remote& remote_;
  Conversation& conversation_;
  const Input input_;
  bool quoting_ = false;
  std::string quoted_;
};

// A person's Ctrl-C; in a pipe it ends the program as it ends any other.
void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  ::sigaction(SIGINT, &action, nullptr);
}

}  // namespace

std::string for_terminal(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = uint8_t(text[i]);
    if (c == 0xc2 && i + 1 < text.size() && uint8_t(text[i + 1]) < 0xa0) {
      ++i;  // U+0080 to U+009F
    } else if (c >= 0x20 ? c != 0x7f : c == '\n' || c == '\t') {
      out += text[i];
    }
  }
  return out;
}

Exit chat(const Remote& remote, const ChatOptions& options) {
  const auto input = input_is_terminal() ? Chat::Input::kPerson : Chat::Input::kPipe;
  std::string model = options.model;
  if (model.empty()) {
    auto names = chat_models(remote);
    if (!names) return fail(remote.url + ": " + names.error().text);
    if (names->empty()) return fail(remote.url + ": the server has no model that makes text");
    model = names->front();
  }
  Conversation conversation(remote, {model, options.system, options.max_tokens, options.temperature});
  if (input == Chat::Input::kPerson) {
    catch_interrupts();
    std::fprintf(stderr, "%s; /help lists what else can be typed\n", printable(model).c_str());
  }
  return Chat(remote, conversation, input).run();
}

}  // namespace weir::app
