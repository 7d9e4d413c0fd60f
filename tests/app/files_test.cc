// Small files: those that are edited on the command line, and those that settings name.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "app/access_control.h"
#include "app/locked_file.h"
#include "base/text_file.h"

namespace weir::app {
namespace {

struct Files : testing::Test {
  Files() {
    std::string pattern = testing::TempDir() + "/weir-files-XXXXXX";
    folder = ::mkdtemp(pattern.data());
  }
  ~Files() override { std::filesystem::remove_all(folder); }
  struct stat of(const std::string& name) {
    struct stat info {};
    EXPECT_EQ(::stat((folder + '/' + name).c_str(), &info), 0) << name;
    return info;
  }

  std::string folder;
};

TEST_F(Files, AFileThatIsMadeIsItsFoldersGroups) {
  const gid_t group = ::geteuid() == 0 ? 54321 : ::getegid();
  ASSERT_EQ(::chown(folder.c_str(), uid_t(-1), group), 0);
  auto file = LockedFile::open(folder + "/keys.yaml", LockedFile::Missing::kMake);
  ASSERT_TRUE(file) << file.error().text;
  ASSERT_TRUE(file->replace("keys: []\n").ok());
  EXPECT_EQ(of("keys.yaml").st_gid, group);
  EXPECT_EQ(of("keys.yaml").st_mode & 07777, 0640U);
}

TEST_F(Files, AFileThatIsThereKeepsItsOwnerAndMode) {
  std::ofstream(folder + "/keys.yaml") << "keys: []\n";
  ASSERT_EQ(::chmod((folder + "/keys.yaml").c_str(), 0604), 0);
  auto file = LockedFile::open(folder + "/keys.yaml", LockedFile::Missing::kMake);
  ASSERT_TRUE(file) << file.error().text;
  EXPECT_EQ(file->text(), "keys: []\n");
  ASSERT_TRUE(file->replace("keys: []\n\n").ok());
  EXPECT_EQ(of("keys.yaml").st_mode & 07777, 0604U);
  EXPECT_EQ(of("keys.yaml").st_gid, ::getegid());
}

TEST_F(Files, WhyAFileCannotBeReadIsSaid) {
  std::ofstream(folder + "/empty").close();
  std::ofstream(folder + "/text") << "a\nb";
  using base::read_text_file;
  EXPECT_EQ(*read_text_file(folder + "/text"), "a\nb");
  EXPECT_EQ(read_text_file(folder + "/empty").error().text, "'" + folder + "/empty' is empty");
  EXPECT_EQ(read_text_file(folder + "/none").error().text,
            "'" + folder + "/none' cannot be read: No such file or directory");
  EXPECT_EQ(read_text_file(folder).error().text, "'" + folder + "' cannot be read: Is a directory");
  Config config;
  config.dialects.clear();
  config.auth.keys_file = folder + "/empty";
  EXPECT_EQ(AccessControl(config).open().text, "auth.keys_file: '" + folder + "/empty' is empty");
  Sources sources;
  sources.file = folder + "/empty";
  EXPECT_EQ(resolve(sources).error().text, "configuration file '" + folder + "/empty' is empty");
}

// A server that runs must not wait for a writer, nor read what has no end.
TEST_F(Files, OtherThanRegularFilesAreNotWaitedFor) {
  const std::string pipe = folder + "/pipe", sparse = folder + "/sparse";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(base::read_text_file(pipe).error().text, "'" + pipe + "' is not a regular file");
  EXPECT_EQ(base::read_text_file("/dev/zero").error().text, "'/dev/zero' is not a regular file");
  EXPECT_EQ(base::read_text_file("/dev/zero", base::Pipes::kRead).error().text, "'/dev/zero' is not a regular file");
  std::ofstream(sparse).close();
  std::filesystem::resize_file(sparse, uintmax_t(12) << 30);
  EXPECT_EQ(base::read_text_file(sparse).error().text, "'" + sparse + "' is longer than 1 MiB");
  EXPECT_EQ(base::read_text_file(sparse, base::Pipes::kRefused, 4 << 10).error().text,
            "'" + sparse + "' is longer than 4 KiB");
  std::thread writer([&] { std::ofstream(pipe) << "a\nb"; });
  EXPECT_EQ(*base::read_text_file(pipe, base::Pipes::kRead), "a\nb");
  writer.join();
}

TEST_F(Files, AKeysFileMayBeAPipeAtTheStart) {
  Config config;
  config.dialects.clear();
  config.auth.keys_file = folder + "/pipe";
  ASSERT_EQ(::mkfifo(config.auth.keys_file.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(config.auth.keys_file) << "keys: []\n"; });
  AccessControl access(config);
  int reads = 0;
  access.on_read([&](const std::string&, const base::Status&) { ++reads; });
  const auto status = access.open();
  writer.join();
  EXPECT_TRUE(status.ok()) << status.text;
  access.look(), access.look(), access.look();
  EXPECT_EQ(reads, 0) << "it is over";
}

}  // namespace
}  // namespace weir::app
