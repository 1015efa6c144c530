/** Tenants that appear in a list `max` times or more: they have their share of it already. */
export function crowded(tenantIds: readonly string[], max: number): string[] {
  const byTenant = Map.groupBy(tenantIds, (id) => id);
  return [...byTenant].flatMap(([id, all]) => (all.length >= max ? [id] : []));
}
