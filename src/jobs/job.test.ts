import { expect, test } from 'bun:test';
import { speechJob } from '../../tests/support/speech-job.ts';
import type { Job } from './job.ts';
import { jobObject } from './job.ts';

const hourMs = 3_600_000;
const finishedAt = Date.UTC(2026, 10, 15, 12);
const expiresAt = finishedAt + 24 * hourMs;

const done = speechJob({ completedAt: finishedAt, expiresAt });

/** As it is shown at this time, with the end of its link instead of the link. */
function shown(job: Partial<Job>, now = finishedAt) {
  const storage = { link: (_: string, until: { expiresAt: number }) => `until ${until.expiresAt}` };
  return jobObject({ ...done, ...job }, { now, baseUrl: 'http://gateway', storage });
}

test('the progress of a running job goes from 0 to 1 by its pieces, in hundredths', () => {
  const progressOf = (piecesDone: number, piecesTotal: number | null) =>
    shown({ status: 'running', piecesDone, piecesTotal, output: null }).progress;
  expect(progressOf(0, null)).toBe(0);
  expect([0, 1, 2, 3].map((pieces) => progressOf(pieces, 3))).toEqual([0, 0.33, 0.67, 1]);
});

test('what has succeeded is whole, however many pieces are remembered', () => {
  expect(shown({ piecesDone: 0 }).progress).toBe(1);
});

test('a link is good for an hour, and never longer than its output', () => {
  const early = shown({}, finishedAt).output;
  expect(early).toMatchObject({
    url: `until ${finishedAt + hourMs}`,
    url_expires_at: '2026-11-15T13:00:00.000Z',
    content_type: 'audio/mpeg',
    bytes: 500,
  });
  expect(shown({}, expiresAt - 1).output).toMatchObject({
    url: `until ${expiresAt}`,
    url_expires_at: '2026-11-16T12:00:00.000Z',
  });
});

test('from the moment it expires, an output is gone and its job says so', () => {
  expect(shown({}, expiresAt - 1).status).toBe('succeeded');
  expect(shown({}, expiresAt)).toMatchObject({ status: 'expired', output: null });
  expect(shown({ status: 'failed' }, expiresAt).status).toBe('failed');
});
