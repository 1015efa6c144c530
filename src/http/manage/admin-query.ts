import { Type } from 'typebox';
import { type TenantPage, tenantSorts } from '../../auth/directory.ts';
import { line } from '../../auth/manage/schema-parts.ts';
import { daysOf, monthAround } from '../../record/period.ts';
import { offsetQuery, readOffset, readParameter } from '../query.ts';

/** The query parameters of operators' reads. */

const searchSchema = line(0, 200);
const sortSchema = Type.Enum([...tenantSorts], {
  description: 'What comes first; the sums are those of the running month.',
});
const orderSchema = Type.Enum(['asc', 'desc'], { description: 'Smallest or largest first.' });

export const tenantQuery = {
  search: Type.String({ ...searchSchema, description: 'A part of the name or id.' }),
  sort: sortSchema,
  order: orderSchema,
  ...offsetQuery,
};

export function readTenantPage(query: URLSearchParams, now: number): Omit<TenantPage, 'limit'> {
  const search = readParameter(query, 'search', searchSchema)?.trim() ?? '';
  const by = readParameter(query, 'sort', sortSchema) ?? 'created_at';
  const isDescending = readParameter(query, 'order', orderSchema) === 'desc';
  const order = { by, isDescending, days: daysOf(monthAround(now)) };
  return { offset: readOffset(query), search, order };
}
