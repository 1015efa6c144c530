import { describe, expect, test } from 'bun:test';
import { speechJob } from '../../tests/support/speech-job.ts';
import type { Job } from './job.ts';
import { jobObject } from './job.ts';

const hourMs = 3_600_000;
const finishedAt = Date.UTC(2026, 10, 15, 12);
const expiresAt = finishedAt + 24 * hourMs;

const done = speechJob({ completedAt: finishedAt, expiresAt });

/** Returns the job's JSON object. Its link contains only the expiry. */
function view(job: Partial<Job>, now = finishedAt) {
  const storage = { link: (_: string, until: { expiresAt: number }) => `until ${until.expiresAt}` };
  return jobObject({ ...done, ...job }, { now, baseUrl: 'http://gateway', storage });
}

describe('jobObject', () => {
  test('reports progress as the fraction of finished pieces, rounded to hundredths', () => {
    const progressOf = (piecesDone: number, piecesTotal: number | null) =>
      view({ status: 'running', piecesDone, piecesTotal, output: null }).progress;
    expect(progressOf(0, null)).toBe(0);
    expect([0, 1, 2, 3].map((pieces) => progressOf(pieces, 3))).toEqual([0, 0.33, 0.67, 1]);
  });

  test('reports progress 1 for a succeeded job whose pieces were deleted', () => {
    expect(view({ piecesDone: 0 }).progress).toBe(1);
  });

  test('returns a link that is valid for 1 hour, or until the output expires', () => {
    const early = view({}, finishedAt).output;
    expect(early).toMatchObject({
      url: `until ${finishedAt + hourMs}`,
      url_expires_at: '2026-11-15T13:00:00.000Z',
      content_type: 'audio/mpeg',
      bytes: 500,
    });
    expect(view({}, expiresAt - 1).output).toMatchObject({
      url: `until ${expiresAt}`,
      url_expires_at: '2026-11-16T12:00:00.000Z',
    });
  });

  test('reports a job as expired, without output, once it has expired', () => {
    expect(view({}, expiresAt - 1).status).toBe('succeeded');
    expect(view({}, expiresAt)).toMatchObject({ status: 'expired', output: null });
    expect(view({ status: 'failed' }, expiresAt).status).toBe('failed');
  });
});
