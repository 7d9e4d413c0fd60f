#include "base/line_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace weir::base {
namespace {

struct LineFileTest : testing::Test {
  const std::string path = testing::TempDir() + "/weir-lines-" + std::to_string(::getpid());
  const std::string moved = path + ".1";
  Metrics metrics;

  void SetUp() override { remove(); }
  void TearDown() override { remove(); }
  void remove() const {
    std::filesystem::remove(path);
    std::filesystem::remove(moved);
  }
  std::unique_ptr<LineFile> open(LineFile::Form form = LineFile::Form::kElements, uint64_t most = UINT64_MAX) {
    auto file = try_open(form, most);
    EXPECT_TRUE(file) << file.error().text;
    return std::move(*file);
  }
  Result<std::unique_ptr<LineFile>> try_open(LineFile::Form form, uint64_t most = UINT64_MAX) {
    LineFile::Names names{"the file", "file", "dropped_total", form, ",{\"dropped\":", most};
    return LineFile::open(names, path, 0600, metrics);
  }
  static std::string text(const std::string& of) {
    std::ifstream in(of);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void wait_until(const auto& is) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!is() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    EXPECT_TRUE(is());
  }
};

// Two processes, here two files that were opened on their own, append to one.
TEST_F(LineFileTest, LinesOfTwoThatAppendToOneFileAreWhole) {
  constexpr size_t kLines = 2000, kLength = 3000;
  {
    auto one = open(LineFile::Form::kLines), other = open(LineFile::Form::kLines);
    auto put = [](LineFile& file, char letter) {
      const std::string line = std::string(kLength, letter) + '\n';
      for (size_t i = 0; i < kLines; ++i)
        while (!file.put(line, 1)) std::this_thread::yield();
    };
    std::thread beside([&] { put(*other, 'b'); });
    put(*one, 'a');
    beside.join();
  }
  size_t a = 0, b = 0;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (line.find("dropped") != std::string::npos) continue;  // put() said so, and it was put again
    a += line == std::string(kLength, 'a'), b += line == std::string(kLength, 'b');
    EXPECT_EQ(line.size(), kLength);
  }
  EXPECT_EQ(a, kLines);
  EXPECT_EQ(b, kLines);
}

TEST_F(LineFileTest, AnArrayIsOfOneProcessAlone) {
  std::ofstream(path) << "what was there";
  auto file = open();
  auto second = try_open(LineFile::Form::kElements);
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().text.find("another process writes it"), std::string::npos) << second.error().text;
  file->put(",1\n", 1);
  file.reset();
  EXPECT_EQ(text(path), "[\n1\n]\n");
  open().reset();
  EXPECT_EQ(text(path), "[\n]\n");
}

TEST_F(LineFileTest, ADeviceIsLockedForNobody) {
  const LineFile::Names names{"the file", "file", "dropped_total", LineFile::Form::kElements};
  auto file = LineFile::open(names, "/dev/null", 0600, metrics),
       second = LineFile::open(names, "/dev/null", 0600, metrics);
  ASSERT_TRUE(file && second);
  EXPECT_TRUE((*file)->put(",1\n", 1));
}

TEST_F(LineFileTest, AFileThatWasMovedAwayEndsAndTheNextBegins) {
  auto file = open();
  file->put(",1\n", 1);
  file->reopen();  // its name is still its own
  file->put(",2\n", 1);
  wait_until([&] { return text(path) == "[\n1\n,2\n"; });
  std::filesystem::rename(path, moved);
  file->put(",3\n", 1);
  file->reopen();
  file->put(",4\n", 1);
  file.reset();
  EXPECT_EQ(text(moved), "[\n1\n,2\n,3\n]\n");
  EXPECT_EQ(text(path), "[\n4\n]\n");
}

TEST_F(LineFileTest, AFileThatSomebodyEmptiesBeginsAnew) {
  auto file = open();
  file->put(",1\n", 1);
  wait_until([&] { return text(path) == "[\n1\n"; });
  std::filesystem::resize_file(path, 0);
  file->put(",2\n", 1);
  file.reset();
  EXPECT_EQ(text(path), "[\n2\n]\n");
}

TEST_F(LineFileTest, WhatHasNoRoomIsCountedAndTheNextFileSaysSo) {
  testing::internal::CaptureStderr();
  auto file = open(LineFile::Form::kElements, 10);
  for (const char* line : {",1\n", ",22\n", ",4444\n", ",5\n"}) file->put(line, 1);
  wait_until([&] { return metrics.text().find("dropped_total 2\n") != std::string::npos; });
  EXPECT_EQ(text(path), "[\n1\n,22\n");
  std::filesystem::rename(path, moved);
  file->reopen();
  file->put(",6\n", 1);
  file.reset();
  EXPECT_EQ(text(moved), "[\n1\n,22\n,{\"dropped\":2}\n]\n");
  EXPECT_EQ(text(path), "[\n6\n]\n");
  testing::internal::GetCapturedStderr();
}

// Where it does not fit behind the "[", the next one that does is the first.
TEST_F(LineFileTest, TheFirstElementIsTheFirstThatHasRoom) {
  testing::internal::CaptureStderr();
  auto file = open(LineFile::Form::kElements, 30);
  file->put(',' + std::string(40, '4') + '\n', 1);
  wait_until([&] { return metrics.text().find("dropped_total 1\n") != std::string::npos; });
  file->put(",1\n", 1);
  file.reset();
  EXPECT_EQ(text(path), "[\n{\"dropped\":1}\n,1\n]\n");
  testing::internal::GetCapturedStderr();
}

// Between poll() and write() another process that writes to the pipe may take the room.
TEST_F(LineFileTest, AWriteToAPipeNeverWaits) {
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  auto file = open(LineFile::Form::kLines);
  size_t writers = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the directory's own descriptor
    const auto file_of = std::filesystem::read_symlink(entry.path(), gone).filename();
    if (file_of != std::filesystem::path(path).filename()) continue;
    const int flags = ::fcntl(std::stoi(entry.path().filename().string()), F_GETFL);
    if ((flags & O_ACCMODE) == O_RDONLY) continue;
    ++writers;
    EXPECT_TRUE(flags & O_NONBLOCK);
  }
  EXPECT_EQ(writers, 1u);
  file->put("1\n", 1);
  file.reset();
  char read[8];
  EXPECT_EQ(::read(reader, read, sizeof read), 2);
  ::close(reader);
}

}  // namespace
}  // namespace weir::base
