#include "apps/cairn/json.h"

#include <gtest/gtest.h>

#include <string>

#include "nlohmann/json.hpp"

namespace cairn {
namespace {

using Json = nlohmann::ordered_json;

// The keys, in order: a golden list, as programs rely on them.
std::string Keys(const Json& json) {
  std::string keys;
  for (const auto& [key, value] : json.items()) keys += key + " ";
  return keys;
}

constexpr char kCheckpointKeys[] =
    "path run name generation newest_generation sequence framework step epoch "
    "files bytes created origin labels state present archived dirty pinned "
    "hold_until damaged lost damage ";

CheckpointInfo Checkpoint() {
  CheckpointInfo checkpoint;
  checkpoint.run = "run\xff";
  checkpoint.name = "100%";
  checkpoint.path = "run\xff/100%";
  checkpoint.created_ns = 1767225600'000000001;
  checkpoint.labels = {{"commit", "abc"}};
  return checkpoint;
}

TEST(JsonTest, OfACheckpoint) {
  const Json json = Json::parse(JsonOf(Checkpoint()))["checkpoint"];
  EXPECT_EQ(Keys(json), kCheckpointKeys);
  EXPECT_EQ(json["path"], "run%FF/100%25");
  EXPECT_EQ(json["run"], "run%FF");
  EXPECT_EQ(json["name"], "100%25");
  EXPECT_EQ(json["created"], "2026-01-01T00:00:00.000000001Z");
  EXPECT_EQ(json["labels"]["commit"], "abc");
  EXPECT_EQ(json["state"], "local");
  EXPECT_TRUE(json["step"].is_null());
  EXPECT_TRUE(json["hold_until"].is_null());
}

TEST(JsonTest, OfAList) {
  EXPECT_EQ(Json::parse(JsonOf(std::vector<CheckpointInfo>())),
            Json({{"checkpoints", Json::array()}}));
  CheckpointInfo checkpoint = Checkpoint();
  checkpoint.step = -3;
  checkpoint.hold_until_ns = 0;
  const Json json =
      Json::parse(JsonOf(std::vector<CheckpointInfo>{checkpoint}));
  EXPECT_EQ(json["checkpoints"][0]["step"], -3);
  EXPECT_EQ(json["checkpoints"][0]["hold_until"],
            "1970-01-01T00:00:00.000000000Z");
}

TEST(JsonTest, IsJsonWhateverMessagesHold) {
  CheckpointInfo checkpoint = Checkpoint();
  checkpoint.damage = "\xff\n\"";
  EXPECT_TRUE(Json::accept(JsonOf(checkpoint)));
}

TEST(JsonTest, OfScan) {
  ScanReport report;
  report.candidates.push_back({.path = "a\n",
                               .framework = "torch",
                               .step = 1,
                               .verdict = "writing",
                               .reason = "why"});
  report.ignored.emplace_back("b", "junk");
  report.changes.emplace_back();
  const Json json = Json::parse(JsonOf(report));
  EXPECT_EQ(Keys(json),
            "committed changes candidates ignored checkpoints files bytes ");
  EXPECT_EQ(Keys(json["candidates"][0]), "path framework step verdict reason ");
  EXPECT_EQ(json["candidates"][0]["path"], "a%0A");
  EXPECT_EQ(Keys(json["changes"][0]),
            "path generation result message bytes bytes_skipped files ");
  EXPECT_EQ(Keys(json["ignored"][0]), "path reason ");
}

TEST(JsonTest, OfBatches) {
  BatchReport report;
  report.dry_run = true;
  report.outcomes.emplace_back().kind = Outcome::Kind::kDone;
  const Json json = Json::parse(JsonOf(report));
  EXPECT_EQ(Keys(json), "dry_run outcomes ");
  EXPECT_EQ(json["outcomes"][0]["result"], OutcomeName(Outcome::Kind::kDone));
}

TEST(JsonTest, OfVerify) {
  VerifyReport report;
  report.outcomes.emplace_back().damages.push_back({.tier = "core",
                                                    .file = "a\xff",
                                                    .offset = 5,
                                                    .kind = "corrupt",
                                                    .message = ""});
  const Json json = Json::parse(JsonOf(report))["outcomes"][0];
  EXPECT_EQ(Keys(json),
            "path generation tier good content_read message files bytes "
            "damages ");
  EXPECT_EQ(Keys(json["damages"][0]), "tier file offset kind message ");
  EXPECT_EQ(json["damages"][0]["file"], "a%FF");
  EXPECT_EQ(json["damages"][0]["offset"], 5);
}

TEST(JsonTest, OfShow) {
  ShowReport report;
  report.files.emplace_back().path = "f";
  report.pointers.emplace_back("latest", "step-1\n");
  const Json json = Json::parse(JsonOf(report));
  EXPECT_EQ(Keys(json),
            "checkpoint generations files pointers marker "
            "verified_accelerator verified_core release ");
  EXPECT_EQ(Keys(json["files"][0]),
            "path type bytes mode mtime target key sha256 ");
  EXPECT_EQ(json["pointers"][0]["content"], "step-1%0A");
  EXPECT_TRUE(json["verified_core"].is_null());
}

TEST(JsonTest, OfTheOthers) {
  EXPECT_EQ(Keys(Json::parse(JsonOf(LatestReport()))),
            "checkpoint location restored passed_over warnings ");
  EXPECT_EQ(Keys(Json::parse(JsonOf(RestoreReport()))),
            "checkpoint location already_there bytes bytes_skipped warnings ");
  EXPECT_EQ(Keys(Json::parse(JsonOf(RebuildReport()))),
            "manifests_accelerator manifests_core checkpoints marks warnings ");
  SweepReport sweep;
  sweep.items.emplace_back();
  EXPECT_EQ(Keys(Json::parse(JsonOf(sweep))["items"][0]),
            "what name bytes reason removed ");
  DoctorReport doctor;
  doctor.items.emplace_back().level = DoctorItem::Level::kBad;
  EXPECT_EQ(Json::parse(JsonOf(doctor))["items"][0]["level"], "bad");
  EXPECT_EQ(Json::parse(JsonOfPin("a\n", true)),
            Json({{"path", "a%0A"}, {"pinned", true}}));
  Options options;
  options.core_urls = {"file:///core"};
  EXPECT_EQ(Keys(Json::parse(JsonOfInit("cairn.toml", true, options))),
            "config config_written accelerator core state_dir ");
}

TEST(JsonTest, OfStatus) {
  StatusReport report;
  report.core_urls = {"file:///core"};
  report.count_by_state["local"] = 2;
  report.bytes_by_state["local"] = 10;
  report.failures.emplace_back();
  const Json json = Json::parse(JsonOf(report));
  EXPECT_EQ(Keys(json),
            "accelerator core states unarchived pinned damaged lost "
            "staging_bytes candidates failures ");
  EXPECT_EQ(json["states"]["local"], Json({{"checkpoints", 2}, {"bytes", 10}}));
  EXPECT_TRUE(json["unarchived"]["oldest"].is_null());
  EXPECT_EQ(Keys(json["failures"][0]), "time operation path message ");
}

}  // namespace
}  // namespace cairn
