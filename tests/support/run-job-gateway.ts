/** Runs `startJobGateway` in its own process. Prints its URL, and a line when it stalls. */

import { runPeriodically } from '../../src/core/periodic-task.ts';
import type { JobQueue } from '../../src/jobs/queue.ts';
import { startJobGateway } from './job-gateway.ts';

const [, , folder = '', upstreamUrl = '', stallAt = ''] = process.argv;
const print = (line: string) => process.stdout.write(`${line}\n`);
const steps = ['addPiece', 'finish'] as const satisfies (keyof JobQueue)[];
const step = steps.find((name) => name === stallAt);
const gateway = await startJobGateway(folder, upstreamUrl, step, () => print('stalled'));
runPeriodically(gateway.jobs.periodicTasks());
print(gateway.url);
