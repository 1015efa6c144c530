// The fake upstream for system tests: a real server on loopback that sends scripted answers like a
// provider's and logs all requests. It doesn't import the gateway's code, so as not to share bugs.
//
//   const upstream = startFakeUpstream();
//   upstream.script('gpt-x', [status429('1'), chatAnswer('Hello there')]);
//   const reset = await upstream.until((log) => log.find(({ outcome }) => outcome === 'reset'));

export * from './fake-upstream/answers.ts';
export type { Behavior } from './fake-upstream/behavior.ts';
export * from './fake-upstream/deliveries.ts';
export type { LoggedRequest, Outcome, RequestTotals } from './fake-upstream/logged-request.ts';
export { type FakeUpstreamProcess, startFakeUpstreamProcess } from './fake-upstream/process.ts';
export { type FakeUpstream, refusingUrl, startFakeUpstream } from './fake-upstream/server.ts';
