package client

import "psrt/sched/psmsg"

// A lane works on one request at a time. So a large pull goes to it in pieces, one after
// the other in one slot, and the requests of other clients come between them. A push is
// applied as a whole and is not cut.
const (
	// wholeRows is the longest pull of a lane's rows that is not cut: the rows of a
	// training step stay one request, with one ticket.
	wholeRows = 64 << 10
	// pieceRows keeps a lane for less than 1 ms.
	pieceRows = 4 << 10
)

// pulled are the rows that a pull of count rows, the lane's first behind first, asks for now.
func (p *part) pulled(first, count int) (int, int) {
	if !p.cut {
		return first, count
	}
	return first + p.came, min(count-p.came, pieceRows)
}

// cuts says whether a pull of a lane's rows goes in pieces. A record (audit) says which
// version a pull has seen, so recorded pulls are whole.
func (c *Client) cuts(rows int) bool { return rows > wholeRows && c.audit == nil }

// nextPiece asks for the next piece of a pull, whose last one has come; false: that was the
// end of it. The version of the whole is that of its first piece.
func (c *Client) nextPiece(l *laneConn, slot int, rep *psmsg.Reply) bool {
	p := &l.parts[slot]
	if !p.cut || rep.Code != psmsg.CodeOK {
		return false
	}
	if p.came == 0 {
		p.version = rep.Version
	}
	rep.Version, rep.Ticket = p.version, 0 // the server's ticket is for a piece
	p.came += pieceRows
	if p.came >= p.rows.laneOff[p.lane+1]-p.rows.laneOff[p.lane]-p.kept {
		return false
	}
	p.call.Created += int(rep.Rows)
	c.stale = append(c.stale, slotRef{l, slot})
	return true
}
