def right_1(x, times):
    """Each call of backward() adds 2 x to what `x.grad` holds: gradients add up over calls as they do over uses."""
    return 2 * x * times


def wrong_1_only_the_last(x, times):
    return 2 * x


def wrong_1_power(x, times):
    return (2 * x) ** times


def right_2(edges, last):
    """A node may pass its gradient on when all that send to it have done so: visit in that order, from `last` on."""
    arrived = dict.fromkeys(edges, 0.0)
    arrived[last] = 1.0
    order, visited = [], set()

    def visit(node):
        if node in visited:
            return
        visited.add(node)
        for target in edges[node]:
            visit(target)
        order.append(node)

    visit(last)
    for node in reversed(order):
        for target in edges[node]:
            arrived[target] += arrived[node]
    return arrived


def wrong_2_every_use_again(edges, last):
    arrived = dict.fromkeys(edges, 0.0)

    def visit(node, share):
        arrived[node] += share
        for target in edges[node]:
            visit(target, arrived[node])

    visit(last, 1.0)
    return arrived


def wrong_2_overwrites(edges, last):
    arrived = dict.fromkeys(edges, 0.0)
    arrived[last] = 1.0
    for node in right_4(edges, last):
        for target in edges[node]:
            arrived[target] = arrived[node]
    return arrived


def wrong_2_sorted_by_name(edges, last):
    arrived = dict.fromkeys(edges, 0.0)
    arrived[last] = 1.0
    for node in sorted(edges):
        for target in edges[node]:
            arrived[target] += arrived[node]
    return arrived


def right_3(x, c):
    """The sum's slope is 1, times x². Each factor's slope is the other factor x, times x + c."""
    return x * x, (x + c) * x, (x + c) * x


def wrong_3_whole_square(x, c):
    return x * x, (x + c) * 2 * x, (x + c) * 2 * x


def wrong_3_no_factor(x, c):
    return 1.0, x, x


def right_4(edges, last):
    """Count for each node the edges that lead to it; a node is ready when the count of those not yet taken is 0."""
    missing = dict.fromkeys(edges, 0)
    for targets in edges.values():
        for target in targets:
            missing[target] += 1
    order, ready = [], [last]
    while ready:
        node = ready.pop()
        order.append(node)
        for target in edges[node]:
            missing[target] -= 1
            if missing[target] == 0:
                ready.append(target)
    return order


def wrong_4_as_written(edges, last):
    return list(edges)


def wrong_4_sorted_backwards(edges, last):
    return sorted(edges, reverse=True)


def wrong_4_depth_first(edges, last):
    order, todo = [], [last]
    while todo:
        node = todo.pop()
        if node not in order:
            order.append(node)
            todo += edges[node]
    return order


def wrong_4_breadth_first(edges, last):
    order = [last]
    for node in order:
        order += [target for target in edges[node] if target not in order]
    return order


def wrong_4_visits_again(edges, last):
    order = [last]
    for node in order:
        order += edges[node]
    return order
