#include "base/log_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace weir::base {
namespace {

using namespace std::chrono_literals;

std::string note(uint64_t lost) { return "lost " + std::to_string(lost) + "\n"; }

struct Pipe {
  int read_end, write_end;
  Pipe() {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    read_end = ends[0], write_end = ends[1];
  }
  ~Pipe() { close_read(), ::close(write_end); }
  void close_read() {
    if (read_end >= 0) ::close(read_end);
    read_end = -1;
  }
  // As much as is there until `end` has come.
  std::string read_to(std::string_view end) {
    std::string out, buffer(1 << 16, 0);
    while (!out.ends_with(end)) {
      ssize_t n = ::read(read_end, buffer.data(), buffer.size());
      if (n <= 0) break;
      out.append(buffer, 0, size_t(n));
    }
    return out;
  }
};

TEST(LogWriter, LinesOfAllThreadsComeWholeAndInEachOnesOrder) {
  Pipe pipe;
  std::string got;
  {
    LogWriter writer(pipe.write_end, note);
    std::thread reader([&] { got = pipe.read_to("end\n"); });
    std::vector<std::thread> threads;
    for (char name : {'a', 'b', 'c'})
      threads.emplace_back([&writer, name] {
        for (int i = 1000; i < 3000; ++i) writer.put(name + std::to_string(i) + "\n");
      });
    for (auto& t : threads) t.join();
    writer.put("end\n");
    reader.join();
    EXPECT_TRUE(writer.flush(10s));
    EXPECT_EQ(writer.dropped(), 0u);
  }
  int next[3] = {1000, 1000, 1000};
  for (size_t at = 0; got.compare(at, 4, "end\n") != 0; at += 6) {
    ASSERT_EQ(got[at + 5], '\n');
    ASSERT_EQ(std::stoi(got.substr(at + 1, 4)), next[got[at] - 'a']++);
  }
  EXPECT_EQ(next[0] + next[1] + next[2], 9000);
}

// Two processes whose standard error is one pipe, here two writers. Each batch is longer than the pipe takes at once.
TEST(LogWriter, LinesOfTwoThatWriteToOnePipeAreWhole) {
  constexpr int kLines = 3000, kLength = 300;
  Pipe pipe;
  std::string got;
  {
    LogWriter one(pipe.write_end, note), other(pipe.write_end, note);
    for (int i = 0; i < kLines; ++i)
      one.put(std::string(kLength, 'a') + '\n'), other.put(std::string(kLength, 'b') + '\n');
    std::thread reader([&] { got = pipe.read_to("end\n"); });
    EXPECT_TRUE(one.flush(20s) && other.flush(20s));
    one.put("end\n");
    reader.join();
    EXPECT_EQ(one.dropped() + other.dropped(), 0u);
  }
  int torn = 0, whole = 0;
  for (size_t at = 0, end; (end = got.find('\n', at)) != got.npos; at = end + 1) {
    const std::string line = got.substr(at, end - at);
    const bool good = line == std::string(kLength, line[0]);
    ++(good ? whole : torn);
  }
  EXPECT_EQ(whole, 2 * kLines);
  EXPECT_EQ(torn, 1) << "the last one";
}

TEST(LogWriter, WhatNobodyReadsIsDroppedAndSaid) {
  Pipe pipe;
  LogWriter writer(pipe.write_end, note);
  const std::string line = std::string(999, 'x') + "\n";
  uint64_t lines = 0;
  while (writer.dropped() < 10) writer.put(line), ++lines;
  EXPECT_LT(lines, 3 * LogWriter::kMostWaiting / line.size());
  EXPECT_FALSE(writer.flush(1ms));
  std::string got;
  std::thread reader([&] { got = pipe.read_to("end\n"); });
  EXPECT_TRUE(writer.flush(10s));
  writer.put("end\n");
  reader.join();
  uint64_t came = 0, lost = 0;
  for (size_t at = 0, end; (end = got.find('\n', at)) != got.npos; at = end + 1) {
    if (got[at] == 'x') ++came;
    if (got[at] == 'l') lost += std::stoull(got.substr(at + 5));
  }
  EXPECT_EQ(lost, writer.dropped());
  EXPECT_EQ(came + lost, lines);
}

TEST(LogWriter, AReaderThatHasGoneIsCounted) {
  Pipe pipe;
  LogWriter writer(pipe.write_end, note);
  pipe.close_read();
  writer.put("a\nb\n");
  EXPECT_TRUE(writer.flush(10s));
  EXPECT_EQ(writer.dropped(), 2u);
}

TEST(LogWriter, AFullDiskIsCounted) {
  int fd = ::open("/dev/full", O_WRONLY);
  ASSERT_GE(fd, 0);
  LogWriter writer(fd, note);
  writer.put("a\n");
  EXPECT_TRUE(writer.flush(10s));
  EXPECT_EQ(writer.dropped(), 1u);
  ::close(fd);
}

TEST(LogWriter, ADescriptorThatDoesNotBlockIsWaitedFor) {
  Pipe pipe;
  fcntl(pipe.write_end, F_SETFL, O_NONBLOCK);
  LogWriter writer(pipe.write_end, note);
  const std::string line(200'000, 'x');
  writer.put(line);
  writer.put("\nend\n");
  EXPECT_EQ(pipe.read_to("end\n"), line + "\nend\n");
}

}  // namespace
}  // namespace weir::base
