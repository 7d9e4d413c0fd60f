// What the programs of clients share: cases one by one, each of which passes or fails, and their count as the tests read it.
let passed = 0;
let failed = 0;

// Runs a case; what it throws is said, and the next one goes on.
async function test(name, run) {
  try {
    await run();
    passed++;
  } catch (error) {
    failed++;
    console.log(`FAILED ${name}: ${error.stack}`);
  }
}
// Equal as JSON.
function same(got, expected, what) {
  const [a, b] = [got, expected].map((value) => JSON.stringify(value));
  if (a !== b) throw new Error(`${what}: expected ${b}, got ${a}`);
}
function truth(value, what) {
  if (!value) throw new Error(what);
}
// Ends the process: 1 where a case has failed.
function finish() {
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}

module.exports = { test, same, truth, finish };
