import { Type } from 'typebox';
import { jobStatuses } from '../jobs/job.ts';
import type { JobPage } from '../jobs/queue.ts';
import { logPageQuery, readLimit } from './customer-query.ts';
import { offsetSchema, readParameter } from './query.ts';

const statusSchema = Type.Unsafe<(typeof jobStatuses)[number]>(
  Type.Enum([...jobStatuses], { description: 'Only jobs that are this.' }),
);

export const jobsQuery = { limit: logPageQuery.limit, offset: offsetSchema, status: statusSchema };

export function readJobPage(query: URLSearchParams): JobPage {
  return {
    limit: readLimit(query),
    offset: readParameter(query, 'offset', offsetSchema) ?? 0,
    status: readParameter(query, 'status', statusSchema) ?? null,
  };
}
