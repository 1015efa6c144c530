/** Runs `startJobStory` as a process: prints its address, and later that it stalls. */

import { runPeriodically } from '../../src/core/periodic-task.ts';
import type { JobQueue } from '../../src/jobs/queue.ts';
import { startJobGateway } from './job-gateway.ts';

const [, , folder = '', upstreamUrl = '', stallAt = ''] = process.argv;
const say = (line: string) => process.stdout.write(`${line}\n`);
const steps = ['addPiece', 'finish'] as const satisfies (keyof JobQueue)[];
const step = steps.find((name) => name === stallAt);
const gateway = await startJobGateway(folder, upstreamUrl, step, () => say('stalled'));
runPeriodically(gateway.jobs.periodicTasks());
say(gateway.url);
