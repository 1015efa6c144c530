import type { Job } from '../../src/jobs/job.ts';

const hourMs = 3_600_000;
const finishedAt = Date.UTC(2026, 10, 15, 12);

/** Returns a speech job that has succeeded, with the given changes. */
export function speechJob(change: Partial<Job> = {}): Job {
  return {
    id: 'job_1',
    tenantId: 'ten_1',
    keyId: 'key_1',
    model: 'test/speech',
    request: {
      type: 'speech',
      voice: 'alloy',
      format: 'mp3',
      speed: null,
      instructions: null,
      limit: { unit: 'characters', max: 4096 },
    },
    inputKey: 'jobs/job_1/input.txt',
    inputBytes: 10,
    metadata: {},
    webhookUrl: null,
    status: 'succeeded',
    attempts: 1,
    piecesDone: 3,
    piecesTotal: 3,
    costCredits: 30,
    units: 10,
    output: { key: 'jobs/job_1/output.mp3', bytes: 500 },
    failure: null,
    createdAt: finishedAt - hourMs,
    startedAt: finishedAt - hourMs,
    completedAt: finishedAt,
    expiresAt: finishedAt + 24 * hourMs,
    ...change,
  };
}
