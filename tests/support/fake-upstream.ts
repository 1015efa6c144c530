/**
 * The fake upstream for whole-system tests: a real server on loopback that speaks the providers'
 * bytes as scripted and keeps its own book. It never imports the gateway's code, so that the two
 * can disagree.
 *
 *   const upstream = startFakeUpstream();
 *   upstream.script('gpt-x', [status429('1'), say('Hello there')]);
 *   const left = await upstream.until((book) => book.find((e) => e.outcome === 'client-left'));
 */

export * from './fake-upstream/answers.ts';
export type { Behaviour } from './fake-upstream/behaviour.ts';
export type { BookEntry, BookSummary, Outcome } from './fake-upstream/book-entry.ts';
export * from './fake-upstream/deliveries.ts';
export { type FakeUpstreamProcess, startFakeUpstreamProcess } from './fake-upstream/process.ts';
export { type FakeUpstream, refusingUrl, startFakeUpstream } from './fake-upstream/server.ts';
