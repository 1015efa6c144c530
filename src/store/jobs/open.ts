import type { JobBook, JobObjects, JobQueue, WebhookQueue } from '../../jobs/queue.ts';
import type { Database } from '../database.ts';
import { SqlJobBook } from './book.ts';
import { SqlJobObjects } from './objects.ts';
import { SqlJobQueue } from './queue.ts';
import { SqlWebhooks } from './webhooks.ts';

/** Everything about jobs that is kept in the database. */
export interface JobStore {
  readonly book: JobBook;
  readonly queue: JobQueue;
  readonly objects: JobObjects;
  readonly webhooks: WebhookQueue;
}

export function openJobs(database: Database): JobStore {
  return {
    book: new SqlJobBook(database),
    queue: new SqlJobQueue(database),
    objects: new SqlJobObjects(database),
    webhooks: new SqlWebhooks(database),
  };
}
