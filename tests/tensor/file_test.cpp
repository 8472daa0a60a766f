#include "tensor/file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "kernels/base/error.h"
#include "tests/support/child_process.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;

size_t entries(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

Error error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorCode::internal, "test", "no error");
}

bool says(const Error& error, const std::string& part) {
  return std::string(error.what()).find(part) != std::string::npos;
}

TEST(File, WriteAndRead) {
  const TemporaryFolder folder;
  const fs::path path = folder / "a.txt";
  write_file(path, "first");
  write_file(path, "second");
  EXPECT_EQ(read_file(path), "second");
  write_file(path, "");
  EXPECT_EQ(read_file(path), "");
  EXPECT_EQ(entries(folder.path()), 1u);
}

TEST(File, LargeAndSmallWritesInOneFile) {
  const TemporaryFolder folder;
  std::string expected;
  AtomicFile file(folder / "big");
  for (int i = 0; i < 40; ++i) {
    const std::string part(static_cast<size_t>(i % 4 == 3 ? 300'000 : 7000 + i), static_cast<char>('a' + i % 26));
    file.write(part);
    expected += part;
  }
  file.commit();
  EXPECT_EQ(read_file(folder / "big"), expected);
  EXPECT_THROW(file.write("more"), Error);
  EXPECT_THROW(file.commit(), Error);
}

TEST(File, WithoutCommitNothingChanges) {
  const TemporaryFolder folder;
  const fs::path path = folder / "a.txt";
  write_file(path, "old");
  {
    AtomicFile file(path);
    file.write("new");
    EXPECT_EQ(read_file(path), "old");
  }
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(entries(folder.path()), 1u);
}

// A reader must see the old or the new content whole, whenever it looks.
TEST(File, ReadersNeverSeeAHalf) {
  const TemporaryFolder folder;
  const fs::path path = folder / "a";
  const std::string contents[] = {std::string(400'000, 'a'), std::string(300'000, 'b')};
  write_file(path, contents[0]);
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (int i = 1; i < 60; ++i) write_file(path, contents[i % 2]);
    done = true;
  });
  int reads = 0;
  while (!done) {
    const std::string seen = read_file(path);
    EXPECT_TRUE(seen == contents[0] || seen == contents[1]);
    ++reads;
  }
  writer.join();
  EXPECT_GT(reads, 0);
}

TEST(File, LinksAreFollowed) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "real");
  write_file(folder / "real" / "a", "old");
  fs::create_symlink(folder / "real" / "a", folder / "link");
  write_file(folder / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(read_file(folder / "real" / "a"), "new");
}

TEST(File, LongNames) {
  const TemporaryFolder folder;
  const std::string name(255, 'n');
  write_file(folder / name, "x");
  EXPECT_EQ(read_file(folder / name), "x");
  EXPECT_EQ(error_of([&] { write_file(folder / (name + "n"), "x"); }).code(), ErrorCode::io);
  EXPECT_EQ(entries(folder.path()), 1u);
}

TEST(File, ErrorsNameThePathAndTheCause) {
  const TemporaryFolder folder;
  const Error missing = error_of([&] { read_file(folder / "missing"); });
  EXPECT_EQ(missing.code(), ErrorCode::not_found);
  EXPECT_TRUE(says(missing, (folder / "missing").string())) << missing.what();
  EXPECT_TRUE(says(error_of([&] { read_file(folder.path()); }), "is a folder"));
  EXPECT_TRUE(says(error_of([&] { MappedFile::open(folder.path()); }), "is a folder"));
  EXPECT_TRUE(says(error_of([&] { MappedFile::open("/dev/null"); }), "not a regular file"));
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_TRUE(says(error_of([&] { MappedFile::open(folder / "pipe"); }), "not a regular file"));  // and does not wait
  const Error no_folder = error_of([&] { write_file(folder / "no" / "file", "x"); });
  EXPECT_EQ(no_folder.code(), ErrorCode::not_found);
  EXPECT_TRUE(says(no_folder, "there is no folder " + (folder / "no").string())) << no_folder.what();
  EXPECT_TRUE(says(error_of([&] { write_file(folder.path(), "x"); }), "is a folder"));
  EXPECT_THROW(write_file("", "x"), Error);
  if (geteuid() != 0) {  // root may do everything
    write_file(folder / "secret", "x");
    fs::permissions(folder / "secret", fs::perms::none);
    EXPECT_TRUE(says(error_of([&] { read_file(folder / "secret"); }), "Permission denied"));
  }
}

// A full disk, played by a limit on the size of files.
TEST(File, AFullDiskLeavesTheOldFile) {
  const TemporaryFolder folder;
  const fs::path path = folder / "a";
  write_file(path, "old");
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 100'000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Error error = error_of([&] { write_file(path, std::string(1'000'000, 'x')); });
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  EXPECT_EQ(error.code(), ErrorCode::io);
  EXPECT_TRUE(says(error, path.string())) << error.what();
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(entries(folder.path()), 1u);
}

TEST(MappedFile, WritesStayPrivate) {
  const TemporaryFolder folder;
  write_file(folder / "a", "hello");
  const auto mapped = MappedFile::open(folder / "a");
  ASSERT_EQ(mapped->size(), 5u);
  mapped->data()[0] = std::byte{'J'};
  EXPECT_EQ(std::memcmp(mapped->data(), "Jello", 5), 0);
  EXPECT_EQ(read_file(folder / "a"), "hello");
  write_file(folder / "a", "other");
  EXPECT_EQ(std::memcmp(mapped->data(), "Jello", 5), 0);
  write_file(folder / "empty", "");
  EXPECT_EQ(MappedFile::open(folder / "empty")->bytes().size(), 0u);
}

TEST(AtomicFolder, AppearsWhole) {
  const TemporaryFolder folder;
  const fs::path target = folder / "checkpoint";
  {
    AtomicFolder writer(target);
    write_file(writer.path() / "model", "1");
    fs::create_directory(writer.path() / "sub");
    write_file(writer.path() / "sub" / "rng", "2");
    EXPECT_FALSE(fs::exists(target));
    writer.commit();
    EXPECT_THROW(writer.commit(), Error);
  }
  EXPECT_EQ(read_file(target / "sub" / "rng"), "2");
  EXPECT_EQ(entries(folder.path()), 1u);
}

TEST(Cases, C71_a_half_written_folder_is_never_seen) {
  const TemporaryFolder folder;
  const fs::path target = folder / "checkpoint";
  {
    AtomicFolder writer(target);
    write_file(writer.path() / "model", "old");
    write_file(writer.path() / "optimizer", "old");
    writer.commit();
  }
  // Killed after the first of two files.
  const pid_t child = fork();
  if (child == 0) {
    AtomicFolder writer(target);
    write_file(writer.path() / "model", "new");
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(read_file(target / "model"), "old");
  EXPECT_EQ(read_file(target / "optimizer"), "old");
  // The next save replaces all of it, and a file of the former one does not stay behind.
  {
    AtomicFolder writer(folder / "checkpoint/");
    write_file(writer.path() / "model", "newer");
    writer.commit();
  }
  EXPECT_EQ(read_file(target / "model"), "newer");
  EXPECT_FALSE(fs::exists(target / "optimizer"));
}

TEST(AtomicFolder, Errors) {
  const TemporaryFolder folder;
  write_file(folder / "file", "x");
  EXPECT_TRUE(says(error_of([&] { AtomicFolder writer(folder / "file"); }), "is a file"));
  EXPECT_EQ(error_of([&] { AtomicFolder writer(folder / "no" / "such"); }).code(), ErrorCode::not_found);
  { AtomicFolder dropped(folder / "dropped"); }
  EXPECT_EQ(entries(folder.path()), 1u);
}

}  // namespace
}  // namespace weft
