/** A search that fails is told to the model alone, so the log tells whoever runs the engine. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import {
  answerIt,
  chat,
  type SearchRig,
  searchFor,
  startSearchRig,
} from '../support/search-rig.ts';

let rig: SearchRig;

beforeAll(async () => {
  rig = await startSearchRig();
});
afterAll(() => rig.stop());
beforeEach(() => rig.reset());

async function searchOnce(): Promise<void> {
  rig.upstream.script('chat', [searchFor('q'), answerIt('Done.')]);
  expect((await rig.gateway.post(chat())).status).toBe(200);
}

function linesAboutSearch(): unknown[] {
  return rig.gateway.logged
    .map((line) => JSON.parse(line) as Record<string, unknown>)
    .filter(({ event }) => String(event).startsWith('search_'))
    .map(({ level, event, reason }) => ({ level, event, reason }));
}

test('the log says once that searches fail, and once that they succeed again', async () => {
  await searchOnce();
  expect(linesAboutSearch()).toEqual([]);
  rig.engine.misbehave(403);
  await searchOnce();
  await searchOnce();
  const reason = 'The search engine refused the gateway.';
  const failed = { level: 'warn', event: 'search_failed', reason };
  expect(linesAboutSearch()).toEqual([failed]);
  rig.engine.reset();
  await searchOnce();
  expect(linesAboutSearch()).toEqual([failed, { level: 'info', event: 'search_works_again' }]);
});
