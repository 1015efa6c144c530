import { Type } from 'typebox';
import { jobStatuses } from '../../jobs/job.ts';
import type { JobPage } from '../../jobs/queue.ts';
import { limitQuery, offsetQuery, readLimit, readOffset, readParameter } from '../query.ts';

const statusSchema = Type.Enum([...jobStatuses], { description: 'Only jobs that are this.' });

export const jobsQuery = { ...limitQuery, ...offsetQuery, status: statusSchema };

export function readJobPage(query: URLSearchParams): JobPage {
  return {
    limit: readLimit(query),
    offset: readOffset(query),
    status: readParameter(query, 'status', statusSchema) ?? null,
  };
}
