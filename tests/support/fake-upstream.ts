/**
 * The fake upstream for whole-system tests: a real server on loopback that speaks the providers'
 * bytes as scripted and keeps its own book. It never imports the gateway's code, so that the two
 * can disagree.
 *
 *   const upstream = startFakeUpstream();
 *   upstream.script('gpt-x', [status429('1'), say('Hello there')]);
 *   const left = await upstream.until((book) => book.find((e) => e.outcome === 'client-disconnected'));
 */

export * from './fake-upstream/answers.ts';
export type { Behavior } from './fake-upstream/behavior.ts';
export * from './fake-upstream/deliveries.ts';
export type { LoggedRequest, Outcome, RequestTotals } from './fake-upstream/logged-request.ts';
export { type FakeUpstreamProcess, startFakeUpstreamProcess } from './fake-upstream/process.ts';
export { type FakeUpstream, refusingUrl, startFakeUpstream } from './fake-upstream/server.ts';
