/** Runs `startJobStory` as a process: prints its address, and later that it stalls. */

import type { JobQueue } from '../../src/jobs/queue.ts';
import { repeatAll } from '../../src/wire/chores.ts';
import { startJobStory } from './job-story.ts';

const [, , folder = '', upstreamUrl = '', stallAt = ''] = process.argv;
const say = (line: string) => process.stdout.write(`${line}\n`);
const steps = ['addPiece', 'finish'] as const satisfies (keyof JobQueue)[];
const step = steps.find((name) => name === stallAt);
const story = await startJobStory(folder, upstreamUrl, step, () => say('stalled'));
repeatAll(story.jobs.chores());
say(story.url);
